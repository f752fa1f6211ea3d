//! Static pods from manifests to a host.

use k8s_openapi::api::core::v1::Pod;
use km_kube::{keys, pod::DefaultLimits};
use km_podtask::{limits::Accounting, static_pods};
use proptest::prelude::*;

fn manifest(name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{name}\"}}\nspec:\n  containers:\n  - {{name: c, image: x:1{container}}}\n"
    )
}

fn with_limits(limits: &[Option<(u32, u32)>]) -> Pod {
    let containers: Vec<String> = limits
        .iter()
        .enumerate()
        .map(|(number, limit)| {
            let limits =
                limit.map(|(cpu, memory)| format!(", resources: {{limits: {{cpu: {cpu}, memory: {memory}Mi}}}}"));
            format!("  - {{name: c{number}, image: x:1{}}}\n", limits.unwrap_or_default())
        })
        .collect();
    let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n";
    static_pods::parse("p.yaml", &format!("{head}{}", containers.concat())).expect("it is a pod")
}

/// The original's table, with its default limits of 0.25 CPU and 64 MB instead of none.
#[test]
fn their_resources_add_up() {
    let first = with_limits(&[Some((10, 20)), Some((30, 40)), Some((50, 60))]);
    let second = with_limits(&[Some((15, 25)), Some((35, 45)), Some((55, 65))]);
    let open = with_limits(&[Some((10, 20)), None, Some((50, 60))]);
    for (mut pods, milli_cpu, megabytes) in [
        (vec![first.clone()], 90_000, 132),
        (vec![first.clone(), second], 195_000, 132 + 142),
        (vec![open, first], 60_250 + 90_000, 32 + 64 + 60 + 132),
        (vec![], 0, 0),
    ] {
        let count = pods.len();
        let defaults = DefaultLimits::default();
        let totals = static_pods::settle(&mut pods, Accounting::Limits, &defaults);
        assert_eq!((totals.milli_cpu, totals.memory_bytes >> 20), (milli_cpu, megabytes));
        let unpacked = static_pods::unpack(&static_pods::pack(&pods).unwrap());
        assert_eq!(unpacked.as_ref().map(Vec::len), Ok(count));
        // What is read back counts the same, in either mode.
        assert_eq!(static_pods::settle(&mut unpacked.unwrap(), Accounting::Limits, &defaults), totals);
    }
}

#[test]
fn a_manifest_is_completed_and_knows_its_file() {
    let pod = static_pods::parse("web.yaml", &manifest("web", ", ports: [{containerPort: 80}]")).unwrap();
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"), "as the API server defaults it");
    assert_eq!(static_pods::file_name(&pod), Some("web.yaml"));
    let json = serde_json::to_string(&serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}}));
    assert!(static_pods::parse("j.json", &json.unwrap()).is_ok());
}

#[test]
fn what_is_no_pod_says_why() {
    for (text, reason) in [
        ("{", "neither YAML nor JSON"),
        ("apiVersion: v1\nkind: Service", "kind \"Service\""),
        ("[]", "not those of a pod"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: []}", "metadata.name is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}", "spec.containers"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 3}", "spec.containers"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nonsense: 3}", "unknown field \"spec.nonsense\""),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: P_}\nspec: {containers: [{name: c, image: x}]}", "metadata.name"),
    ] {
        let error = static_pods::parse("f", text).unwrap_err();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
}

#[test]
fn a_host_adds_its_name_and_its_variables() {
    let pod =
        static_pods::parse("p", &manifest("p", ", env: [{name: A, value: old}, {name: B, value: kept}]")).unwrap();
    let variables = [("A".to_owned(), "new".to_owned()), ("C".to_owned(), "added".to_owned())];
    let pod = static_pods::for_host(pod, "host1", &variables);
    assert_eq!(pod.metadata.annotations.unwrap()[keys::BINDING_HOST], "host1");
    let env = pod.spec.unwrap().containers[0].env.clone().unwrap();
    let pairs: Vec<_> = env.iter().map(|one| (one.name.as_str(), one.value.as_deref().unwrap())).collect();
    assert_eq!(pairs, [("A", "new"), ("B", "kept"), ("C", "added")]);
}

#[test]
fn names_of_files_stay_in_their_folder() {
    let mut pod = static_pods::parse("p", &manifest("p", "")).unwrap();
    for (name, wanted) in [("a.yaml", true), ("../a", false), ("a/b", false), ("", false), (".hidden", false)] {
        pod.metadata.annotations.as_mut().unwrap().insert(keys::STATIC_POD_FILENAME.into(), name.into());
        assert_eq!(static_pods::file_name(&pod).is_some(), wanted, "{name}");
    }
    pod.metadata.annotations = None;
    assert_eq!(static_pods::file_name(&pod), None);
}

#[test]
fn too_many_are_refused() {
    // Nothing that could be compressed away.
    let noise: String = (0..40_000u32).map(|number| format!("{:x}", number.wrapping_mul(2_654_435_761))).collect();
    let mut pod = static_pods::parse("p", &manifest("p", "")).unwrap();
    pod.metadata.annotations.as_mut().unwrap().insert("noise".into(), noise);
    assert!(static_pods::pack(&[pod]).unwrap_err().contains("16384 are allowed"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn archives_give_back_what_was_packed(names in prop::collection::vec("[a-z]{1,20}", 0..6)) {
        let pods: Vec<Pod> = names.iter().map(|name| static_pods::parse(name, &manifest(name, "")).unwrap()).collect();
        let archive = static_pods::pack(&pods).unwrap();
        prop_assert_eq!(&static_pods::pack(&pods).unwrap(), &archive, "the same pods are the same executor");
        prop_assert_eq!(static_pods::unpack(&archive).unwrap(), pods);
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        prop_assert!(static_pods::unpack(&bytes).is_err());
    }
}
