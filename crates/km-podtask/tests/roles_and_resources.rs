//! Roles and procurement, as tables.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerPort, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use km_kube::{keys, pod::DefaultLimits};
use km_mesos_proto::v1;
use km_podtask::{
    PortStrategy, ProcurementError, ResourceNames, Want,
    limits::{Accounting, settle},
    procure, roles, take,
};
use proptest::prelude::*;

fn scalar(name: &str, value: f64, role: &str) -> v1::Resource {
    #[allow(deprecated)]
    v1::Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar as i32,
        scalar: Some(v1::value::Scalar { value }),
        role: Some(role.to_owned()),
        ..v1::Resource::default()
    }
}

fn ports(begin: u64, end: u64) -> v1::Resource {
    v1::Resource {
        name: "ports".to_owned(),
        r#type: v1::value::Type::Ranges as i32,
        ranges: Some(v1::value::Ranges { range: vec![v1::value::Range { begin, end }] }),
        ..v1::Resource::default()
    }
}

fn texts(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|role| (*role).to_owned()).collect()
}

fn annotated(roles: Option<&str>) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.annotations = roles.map(|roles| BTreeMap::from([(keys::ROLES.to_owned(), roles.to_owned())]));
    pod
}

#[test]
fn a_pod_uses_the_roles_it_names_and_the_framework_has() {
    let table: [(Option<&str>, &[&str], &[&str]); 8] = [
        (None, &[], &["*"]),
        (Some(""), &[], &[]),
        (Some(",  , ,"), &[], &[]),
        (Some("forbiddenRole"), &["allowedRole"], &[]),
        (Some("*, , *, ,slave_public,"), &["*", "slave_public"], &["*", "slave_public"]),
        (Some("role3,role2,role1"), &["role1", "role4"], &["role1"]),
        (None, &["role1"], &["*"]),
        (Some("*"), &[], &["*"]),
    ];
    for (annotation, framework, expected) in table {
        let found = roles::of_pod(&annotated(annotation), &texts(framework), &[]);
        assert_eq!(found, expected, "annotation {annotation:?}, framework {framework:?}");
    }
}

#[test]
fn a_pod_is_launched_in_the_name_of_its_named_roles() {
    let table: [(&[&str], &[&str]); 4] = [(&["*"], &[]), (&["b", "*"], &["b"]), (&["b", "a"], &["b", "a"]), (&[], &[])];
    for (roles, expected) in table {
        assert_eq!(roles::named(&texts(roles)), expected, "{roles:?}");
    }
}

#[test]
fn roles_are_filtered_without_empty_and_repeated_ones() {
    let all = ["role1", "", "role1", "role2", "role3", "role2"];
    assert_eq!(roles::distinct(all, |_| true), ["role1", "role2", "role3"]);
    assert!(roles::distinct([""], |_| true).is_empty());
    assert!(roles::distinct([], |_| true).is_empty());
}

#[test]
fn a_refined_reservation_names_the_role() {
    let role = |name: &str| v1::resource::ReservationInfo { role: Some(name.into()), ..Default::default() };
    let refined = v1::Resource { reservations: vec![role("eng"), role("eng/prod")], ..Default::default() };
    assert_eq!(roles::of_resource(&refined), "eng/prod");
    assert_eq!(roles::of_resource(&v1::Resource::default()), "*");
}

#[test]
fn scalars_are_taken_role_by_role() {
    let mixed = || vec![scalar("mem", 128.0, "*"), scalar("mem", 32.0, "sp")];
    let many = || {
        vec![
            scalar("cpus", 1.5, "sp"),
            scalar("cpus", 1.0, "sp"),
            scalar("mem", 128.0, "sp"),
            scalar("mem", 64.0, "sp"),
            scalar("mem", 128.0, "*"),
        ]
    };
    type Row = (Vec<v1::Resource>, f64, &'static [&'static str], Option<Vec<v1::Resource>>, Vec<v1::Resource>);
    let table: Vec<Row> = vec![
        (
            mixed(),
            128.0,
            &["sp", "*"],
            Some(vec![scalar("mem", 32.0, "sp"), scalar("mem", 96.0, "*")]),
            vec![scalar("mem", 32.0, "*")],
        ),
        (mixed(), 128.0, &["sp"], None, mixed()),
        (
            many(),
            200.0,
            &["sp", "*"],
            Some(vec![scalar("mem", 128.0, "sp"), scalar("mem", 64.0, "sp"), scalar("mem", 8.0, "*")]),
            vec![scalar("cpus", 1.5, "sp"), scalar("cpus", 1.0, "sp"), scalar("mem", 120.0, "*")],
        ),
        (vec![scalar("mem", 128.0, "*")], 128.0, &["sp", "*"], Some(vec![scalar("mem", 128.0, "*")]), vec![]),
        (vec![scalar("cpu", 32.0, "sp")], 128.0, &["sp", "*"], None, vec![scalar("cpu", 32.0, "sp")]),
        (vec![], 160.0, &["sp", "*"], None, vec![]),
        // Resources of roles that the pod may not use stay where they are.
        (
            vec![scalar("mem", 64.0, "other"), scalar("mem", 64.0, "*")],
            64.0,
            &["*"],
            Some(vec![scalar("mem", 64.0, "*")]),
            vec![scalar("mem", 64.0, "other")],
        ),
    ];
    for (number, (mut offered, want, allowed, taken, left)) in table.into_iter().enumerate() {
        let thousandths = (want * 1000.0) as i64;
        assert_eq!(take(&mut offered, "mem", thousandths, &texts(allowed)), taken, "row {number}");
        assert_eq!(offered, left, "row {number}");
    }
}

#[test]
fn volumes_and_revocable_resources_are_left_alone() {
    let mut revocable = scalar("cpus", 4.0, "*");
    revocable.revocable = Some(v1::resource::RevocableInfo {});
    let mut volume = scalar("disk", 4.0, "*");
    volume.disk = Some(v1::resource::DiskInfo {
        persistence: Some(v1::resource::disk_info::Persistence { id: "v".into(), principal: None }),
        ..Default::default()
    });
    let mut offered = vec![revocable, volume];
    assert_eq!(take(&mut offered, "cpus", 1000, &texts(&["*"])), None);
    assert_eq!(take(&mut offered, "disk", 1000, &texts(&["*"])), None);
}

/// Of sets and ranges the first items are taken, of all kinds the preferred role's.
#[test]
fn whole_units_are_taken_of_resources_of_every_kind() {
    let set = |items: &[&str]| v1::Resource {
        name: "example.com/fpga".into(),
        r#type: v1::value::Type::Set as i32,
        set: Some(v1::value::Set { item: texts(items) }),
        ..v1::Resource::default()
    };
    let ranges = |list: &[(u64, u64)]| {
        let range = list.iter().map(|(begin, end)| v1::value::Range { begin: *begin, end: *end }).collect();
        v1::Resource {
            name: "example.com/fpga".into(),
            ranges: Some(v1::value::Ranges { range }),
            scalar: None,
            ..ports(0, 0)
        }
    };
    let plain = |value: f64, role: &str| scalar("example.com/fpga", value, role);
    type Row = (Vec<v1::Resource>, i64, Option<Vec<v1::Resource>>, Vec<v1::Resource>);
    let table: Vec<Row> = vec![
        (vec![plain(4.0, "*")], 3, Some(vec![plain(3.0, "*")]), vec![plain(1.0, "*")]),
        (
            vec![plain(2.0, "*"), plain(1.0, "a")],
            2,
            Some(vec![plain(1.0, "a"), plain(1.0, "*")]),
            vec![plain(1.0, "*")],
        ),
        (vec![set(&["x", "y", "z"])], 2, Some(vec![set(&["x", "y"])]), vec![set(&["z"])]),
        (vec![set(&["x"])], 1, Some(vec![set(&["x"])]), vec![]),
        (vec![set(&["x"])], 2, None, vec![set(&["x"])]),
        (vec![ranges(&[(3, 4), (7, 9)])], 3, Some(vec![ranges(&[(3, 4), (7, 7)])]), vec![ranges(&[(8, 9)])]),
        (vec![ranges(&[(0, u64::MAX)])], 1, Some(vec![ranges(&[(0, 0)])]), vec![ranges(&[(1, u64::MAX)])]),
        (vec![plain(2.0, "b")], 1, None, vec![plain(2.0, "b")]),
    ];
    for (number, (mut offered, units, taken, left)) in table.into_iter().enumerate() {
        let mut want = Want::default();
        want.add_units("example.com/fpga", units);
        let spec = PodSpec::default();
        let got = procure(&mut offered, &want, &spec, &texts(&["a", "*"]), PortStrategy::Fixed);
        assert_eq!(got.ok().map(|got| got.resources), taken, "row {number}");
        assert_eq!(offered, left, "row {number}");
    }
}

#[test]
fn offers_come_to_amounts_of_kubernetes() {
    let set = v1::Resource {
        name: "example.com/fpga".into(),
        set: Some(v1::value::Set { item: texts(&["x", "y"]) }),
        ..v1::Resource::default()
    };
    let mut revocable = scalar("gpus", 8.0, "*");
    revocable.revocable = Some(v1::resource::RevocableInfo {});
    let offered = [
        scalar("cpus", 1.5, "*"),
        scalar("cpus", 1.0, "a"),
        scalar("mem", 64.0, "*"),
        scalar("gpus", 1.0, "*"),
        scalar("gpus", 2.0, "a"),
        scalar("bandwidth", 10.5, "*"),
        scalar("tiny", 0.5, "*"),
        ports(1, 100),
        revocable,
        set,
    ];
    let amounts = ResourceNames::default().amounts(&offered);
    assert_eq!((amounts.milli_cpu, amounts.memory_bytes), (2500, 64 << 20));
    let other: Vec<(&str, i64)> = amounts.other.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
    assert_eq!(other, [("example.com/fpga", 2), ("k8s.mesosphere.io/bandwidth", 10), ("nvidia.com/gpu", 3)]);
}

fn spec(host_port: Option<i32>) -> PodSpec {
    let port = |number| ContainerPort { container_port: 80, host_port: Some(number), ..ContainerPort::default() };
    let container =
        Container { name: "a".into(), ports: host_port.map(|number| vec![port(number)]), ..Container::default() };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

#[test]
fn an_offer_must_hold_cpu_memory_and_ports() {
    let offer = |cpus, mem| vec![scalar("cpus", cpus, "*"), scalar("mem", mem, "*")];
    let with_port = || [offer(128.0, 128.0), vec![ports(1, 1)]].concat();
    let table = [
        (vec![], None, false),
        (offer(0.001, 0.001), None, false),
        (offer(128.0, 128.0), None, true),
        (with_port(), None, true),
        (with_port(), Some(123), false),
        (with_port(), Some(1), true),
        (with_port(), Some(0), true),
        (offer(128.0, 128.0), Some(0), false),
        (offer(128.0, 128.0), Some(1), false),
    ];
    for (number, (mut offered, host_port, fits)) in table.into_iter().enumerate() {
        let before = offered.clone();
        let want = Want::new(1000, 64 << 20);
        let result = procure(&mut offered, &want, &spec(host_port), &texts(&["*"]), PortStrategy::Wildcard);
        assert_eq!(result.is_ok(), fits, "row {number}: {result:?}");
        if !fits {
            assert_eq!(offered, before, "row {number}: a failure takes nothing");
        }
    }
}

#[test]
fn procured_ports_leave_the_offer() {
    let mut offered = vec![scalar("cpus", 4.0, "*"), scalar("mem", 64.0, "*"), ports(1, 3)];
    let want = Want::new(3000, 0);
    let got = procure(&mut offered, &want, &spec(Some(2)), &texts(&["*"]), PortStrategy::Fixed);
    let got = got.expect("it fits");
    assert_eq!(got.resources, [scalar("cpus", 3.0, "*"), ports(2, 2)]);
    let left = offered.iter().find_map(|resource| resource.ranges.clone()).expect("ports are left");
    assert_eq!(left.range.iter().map(|range| (range.begin, range.end)).collect::<Vec<_>>(), [(1, 1), (3, 3)]);
    let again = procure(&mut offered, &Want::default(), &spec(Some(2)), &texts(&["*"]), PortStrategy::Fixed);
    assert!(matches!(again, Err(ProcurementError::Ports(_))));
}

fn requirements(cpu: (Option<&str>, Option<&str>), memory: (Option<&str>, Option<&str>)) -> Container {
    let list = |cpu: Option<&str>, memory: Option<&str>| {
        let named = [("cpu", cpu), ("memory", memory)].into_iter();
        Some(named.filter_map(|(name, text)| Some((name.to_owned(), Quantity(text?.to_owned())))).collect())
    };
    let resources =
        ResourceRequirements { requests: list(cpu.0, memory.0), limits: list(cpu.1, memory.1), claims: None };
    Container { name: "a".into(), resources: Some(resources), ..Container::default() }
}

#[test]
fn limits_accounting_fills_in_and_raises() {
    const D: (i64, i64) = (250, 64);
    const M: (i64, i64) = (10, 32);
    type Amount = Option<&'static str>;
    type Row = (Amount, Amount, Amount, Amount, i64, i64);
    let table: [Row; 6] = [
        (None, Some("3"), None, Some("768Mi"), D.0 + 3000, D.1 + 768),
        (Some("0"), Some("3"), Some("0"), Some("768Mi"), D.0 + 3000, D.1 + 768),
        (None, None, None, None, 2 * D.0, 2 * D.1),
        (Some("0"), Some("0"), Some("0"), Some("0"), M.0 + D.0, M.1 + D.1),
        (Some("2"), Some("3"), None, Some("768Mi"), D.0 + 3000, D.1 + 768),
        (Some("2"), Some("3"), Some("256Mi"), Some("768Mi"), D.0 + 3000, D.1 + 768),
    ];
    for (number, (cpu_request, cpu_limit, memory_request, memory_limit, cpu, memory)) in table.into_iter().enumerate() {
        let first = requirements((cpu_request, cpu_limit), (memory_request, memory_limit));
        let second = Container { name: "b".into(), ..Container::default() };
        let spec = PodSpec { containers: vec![first, second], ..PodSpec::default() };
        let mut pod = Pod { spec: Some(spec), ..Pod::default() };
        let totals = settle(&mut pod, Accounting::Limits, &DefaultLimits::default());
        assert_eq!((totals.milli_cpu, totals.memory_bytes >> 20), (cpu, memory), "row {number}");
        assert_eq!(pod.metadata.annotations.unwrap()[km_kube::keys::COUNTED], "limits");
    }
}

#[test]
fn requests_accounting_counts_requests_and_leaves_the_pod_alone() {
    let first = requirements((Some("2"), Some("3")), (None, Some("768Mi")));
    let second = Container { name: "b".into(), ..Container::default() };
    let spec = PodSpec { containers: vec![first, second], ..PodSpec::default() };
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    let before = pod.clone();
    let totals = settle(&mut pod, Accounting::Requests, &DefaultLimits::default());
    assert_eq!((totals.milli_cpu, totals.memory_bytes >> 20), (2250, 768 + 64));
    assert_eq!(pod, before);
}

proptest! {
    /// Whatever is taken and left adds up to what was offered.
    #[test]
    fn nothing_is_made_or_lost(
        amounts in proptest::collection::vec((1..5000i64, 0..3usize), 0..8),
        want in 1..12_000i64,
    ) {
        let names = ["*", "a", "b"];
        let mut offered: Vec<v1::Resource> =
            amounts.iter().map(|(amount, role)| scalar("cpus", *amount as f64 / 1000.0, names[*role])).collect();
        let sum = |resources: &[v1::Resource]| -> i64 {
            resources.iter().map(|one| (one.scalar.as_ref().map_or(0.0, |s| s.value) * 1000.0).round() as i64).sum()
        };
        let before = sum(&offered);
        let usable: i64 = amounts.iter().filter(|(_, role)| *role < 2).map(|(amount, _)| amount).sum();
        match take(&mut offered, "cpus", want, &texts(&["a", "*"])) {
            Some(taken) => {
                prop_assert_eq!(sum(&taken), want);
                prop_assert_eq!(sum(&offered) + want, before);
            }
            None => {
                prop_assert!(usable < want);
                prop_assert_eq!(sum(&offered), before);
            }
        }
    }
}
