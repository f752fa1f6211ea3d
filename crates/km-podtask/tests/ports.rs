//! Host-port mapping, as a table.

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec};
use km_kube::keys;
use km_podtask::{OfferedPorts, PortError, PortStrategy, map_ports, strategy_of};
use proptest::prelude::*;

fn spec(ports: &[(i32, Option<&str>)]) -> PodSpec {
    let containers = ports.iter().enumerate().map(|(number, (host_port, protocol))| Container {
        name: format!("c{number}"),
        ports: Some(vec![ContainerPort {
            container_port: 80,
            host_port: (*host_port != 0).then_some(*host_port),
            protocol: protocol.map(str::to_owned),
            ..ContainerPort::default()
        }]),
        ..Container::default()
    });
    PodSpec { containers: containers.collect(), ..PodSpec::default() }
}

fn range(begin: u16, end: u16, role: &str) -> OfferedPorts {
    OfferedPorts { begin, end, role: role.to_owned() }
}

fn any() -> Vec<String> {
    vec!["*".to_owned()]
}

#[test]
fn ports_are_mapped_as_the_original_did() {
    use PortStrategy::{Fixed, Wildcard};
    let one = || vec![range(1, 1, "*")];
    type Row = (Vec<i32>, Vec<OfferedPorts>, PortStrategy, Result<Vec<(&'static str, u16)>, PortError>);
    let table: Vec<Row> = vec![
        (vec![], one(), Fixed, Ok(vec![])),
        (
            vec![123, 123],
            one(),
            Fixed,
            Err(PortError::Duplicate { port: 123, first: "c0".into(), second: "c1".into() }),
        ),
        (vec![], vec![], Wildcard, Ok(vec![])),
        (vec![], one(), Wildcard, Ok(vec![])),
        (vec![123], one(), Wildcard, Err(PortError::NotOffered(vec![123]))),
        (vec![0, 123], one(), Wildcard, Err(PortError::NotOffered(vec![123]))),
        (vec![0, 1], one(), Wildcard, Err(PortError::NotOffered(vec![]))),
        (vec![0, 1], vec![range(1, 2, "*")], Wildcard, Ok(vec![("c1", 1), ("c0", 2)])),
        (vec![0, 0], vec![range(1, 1, "*"), range(3, 5, "*")], Wildcard, Ok(vec![("c0", 1), ("c1", 3)])),
        (vec![0], one(), Fixed, Ok(vec![])),
        (vec![1], vec![range(1, 1, "other")], Fixed, Err(PortError::NotOffered(vec![1]))),
    ];
    for (number, (ports, offered, strategy, expected)) in table.into_iter().enumerate() {
        let ports: Vec<_> = ports.into_iter().map(|port| (port, None)).collect();
        let found = map_ports(&spec(&ports), &offered, &any(), strategy);
        let found = found.map(|entries| entries.iter().map(|one| (one.container.clone(), one.host_port)).collect());
        let expected = expected.map(|all| all.into_iter().map(|(name, port)| (name.to_owned(), port)).collect());
        assert_eq!(found, expected as Result<Vec<(String, u16)>, PortError>, "row {number}");
    }
}

#[test]
fn two_protocols_of_a_pod_share_a_port() {
    let spec = spec(&[(53, Some("TCP")), (53, Some("UDP"))]);
    let entries = map_ports(&spec, &[range(53, 53, "*")], &any(), PortStrategy::Fixed).expect("one port is enough");
    assert_eq!(entries.iter().map(|entry| entry.protocol.as_str()).collect::<Vec<_>>(), ["TCP", "UDP"]);
}

#[test]
fn earlier_roles_are_used_first() {
    let offered = [range(10, 10, "*"), range(20, 20, "sp")];
    let roles = ["sp".to_owned(), "*".to_owned()];
    let entries = map_ports(&spec(&[(0, None)]), &offered, &roles, PortStrategy::Wildcard).expect("ports are there");
    assert_eq!((entries[0].host_port, entries[0].role.as_str()), (20, "sp"));
}

#[test]
fn the_label_chooses_the_strategy() {
    let labelled = |value: &str| {
        let mut pod = Pod::default();
        pod.metadata.labels = Some([(keys::PORT_MAPPING.to_owned(), value.to_owned())].into());
        pod
    };
    let default = PortStrategy::Wildcard;
    assert_eq!(strategy_of(&Pod::default(), default), PortStrategy::Wildcard);
    assert_eq!(strategy_of(&labelled("fixed"), default), PortStrategy::Fixed);
    assert_eq!(strategy_of(&labelled("wildcard"), PortStrategy::Fixed), PortStrategy::Wildcard);
    assert_eq!(strategy_of(&labelled("nonsense"), default), PortStrategy::Wildcard);
}

proptest! {
    /// Mapped ports are offered, distinct, and one for each container port.
    #[test]
    fn a_mapping_is_within_the_offer(
        wanted in proptest::collection::vec(prop_oneof![Just(0), 1..30i32], 0..6),
        bounds in proptest::collection::vec((1..30u16, 0..5u16), 0..4),
    ) {
        let offered: Vec<_> = bounds.iter().map(|(begin, length)| range(*begin, begin + length, "*")).collect();
        let ports: Vec<_> = wanted.iter().map(|port| (*port, None)).collect();
        if let Ok(entries) = map_ports(&spec(&ports), &offered, &any(), PortStrategy::Wildcard) {
            prop_assert_eq!(entries.len(), wanted.len());
            let mut numbers: Vec<u16> = entries.iter().map(|entry| entry.host_port).collect();
            for number in &numbers {
                prop_assert!(offered.iter().any(|range| (range.begin..=range.end).contains(number)));
            }
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), wanted.len());
        }
    }
}
