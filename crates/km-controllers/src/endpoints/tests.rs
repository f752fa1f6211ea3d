//! Tables and properties of `endpoints`.

use super::address::endpoint;
use super::*;
use serde_json::json;

fn pod(name: &str, more: Value) -> PodView {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "x"}, "annotations": {
            "k8s.mesosphere.io/port_TCP_80": "31080", "k8s.mesosphere.io/portName_TCP_web": "31080"}},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "web"}]}]},
        "status": {"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
            "conditions": [{"type": "Ready", "status": "True"}]}
    });
    for (at, value) in more.as_object().unwrap() {
        let (parent, field) = at.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    PodView::read(&object).unwrap()
}

fn service(ports: Value) -> Value {
    json!({"metadata": {"name": "s", "namespace": "n", "uid": "u", "labels": {"l": "1"}},
        "spec": {"selector": {"app": "x"}, "ports": ports, "clusterIP": "10.96.0.1"}})
}

#[test]
fn host_ports_follow_the_annotations() {
    let web = json!([{"port": 8080, "targetPort": "web", "protocol": "TCP", "name": "http"}]);
    let number = json!([{"port": 80, "protocol": "TCP"}]);
    let table = [
        ("named", web.clone(), json!({}), Some(31080)),
        ("numbered", number.clone(), json!({}), Some(31080)),
        ("undeclared", json!([{"port": 81, "protocol": "TCP"}]), json!({}), None),
        ("other protocol", json!([{"port": 80, "protocol": "UDP"}]), json!({}), None),
        ("no annotation", number.clone(), json!({"/metadata/annotations": {}}), None),
        (
            "bad annotation",
            number.clone(),
            json!({"/metadata/annotations": {"k8s.mesosphere.io/port_TCP_80": "x"}}),
            None,
        ),
        ("no host address", number.clone(), json!({"/status/hostIP": null}), None),
        ("finished", number, json!({"/status/phase": "Failed"}), None),
    ];
    for (name, ports, more, want) in table {
        let found = endpoint(&service(ports), &pod("p", more), true);
        assert_eq!(found.as_ref().map(|endpoint| endpoint.ports[0].number), want, "{name}");
        if let Some(endpoint) = found {
            assert_eq!(endpoint.ip, "10.0.0.1", "{name}");
        }
    }
}

#[test]
fn without_host_ports_the_pod_answers_itself() {
    let found = endpoint(&service(json!([{"port": 1, "targetPort": 9000}])), &pod("p", json!({})), false).unwrap();
    assert_eq!((found.ip.as_str(), found.ports[0].number), ("10.1.0.1", 9000));
    let found = endpoint(&service(json!([{"port": 1, "targetPort": "web"}])), &pod("p", json!({})), false).unwrap();
    assert_eq!(found.ports[0].number, 80);
    assert!(endpoint(&service(json!([{"port": 1, "targetPort": "none"}])), &pod("p", json!({})), false).is_none());
}

fn origin(service: &Value) -> Origin<'_> {
    Origin { object: service, resource: Resource::services(), manager: SLICE_MANAGER, headless: false }
}

fn found(pods: &[PodView]) -> Vec<Endpoint> {
    let service = service(json!([{"port": 80, "protocol": "TCP"}]));
    pods.iter().filter_map(|pod| endpoint(&service, pod, true)).collect()
}

fn unready() -> Value {
    json!({"/status/conditions": []})
}

fn dying() -> Value {
    json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"})
}

fn other_port(port: &str) -> Value {
    json!({"/metadata/annotations": {"k8s.mesosphere.io/port_TCP_80": port}})
}

#[test]
fn the_endpoints_object_groups_by_ports_and_readiness() {
    let service = service(json!([{"port": 80, "protocol": "TCP"}]));
    let key = Key::new("n", "s");
    let pods = [pod("a", json!({})), pod("b", unready()), pod("c", dying()), pod("d", other_port("31999"))];
    let found = found(&pods);
    let Some(Action::Create { object, .. }) = endpoints_object::change(&service, &key, &found, None) else {
        panic!("it is to be made");
    };
    let names = |subset: usize, list: &str| -> Vec<String> {
        let list = object["subsets"][subset][list].as_array().cloned().unwrap_or_default();
        list.iter().map(|address| address["targetRef"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(object["subsets"].as_array().unwrap().len(), 2);
    assert_eq!((names(0, "addresses"), names(0, "notReadyAddresses")), (vec!["a".into()], vec!["b".into()]));
    assert_eq!(names(1, "addresses"), ["d"]);
    assert_eq!(object["subsets"][0]["ports"], json!([{"port": 31080, "protocol": "TCP"}]));
    assert_eq!(object["metadata"]["annotations"]["k8s.mesosphere.io/containerPort_TCP_10.0.0.1_31080"], json!("80"));
    assert_eq!(endpoints_object::change(&service, &key, &found, Some(&object)), None, "nothing to write twice");
    let mut annotated = object.clone();
    annotated["metadata"]["annotations"] = json!({"other": "kept"});
    assert_eq!(endpoints_object::change(&service, &key, &found, Some(&annotated)), None);
    annotated["subsets"] = json!([]);
    let Some(Action::Replace { object, .. }) = endpoints_object::change(&service, &key, &found, Some(&annotated))
    else {
        panic!("it is to be written");
    };
    assert_eq!(object["metadata"]["annotations"]["other"], json!("kept"));
}

#[test]
fn slices_hold_pods_of_the_same_ports_with_their_conditions() {
    let service = service(json!([{"port": 80, "protocol": "TCP"}]));
    let key = Key::new("n", "s");
    let pods = [pod("a", json!({})), pod("b", unready()), pod("c", dying()), pod("d", other_port("31999"))];
    let actions = slices::changes(&origin(&service), &key, &found(&pods), &[]);
    let objects: Vec<Value> = actions
        .into_iter()
        .map(|action| match action {
            Action::Create { object, .. } => object,
            other => panic!("want creates, got {other:?}"),
        })
        .collect();
    assert_eq!(objects.len(), 2);
    let three = objects.iter().find(|object| object["endpoints"].as_array().unwrap().len() == 3).unwrap();
    let conditions: Vec<&Value> =
        three["endpoints"].as_array().unwrap().iter().map(|endpoint| &endpoint["conditions"]).collect();
    assert_eq!(conditions[0], &json!({"ready": true, "serving": true, "terminating": false}));
    assert_eq!(conditions[1], &json!({"ready": false, "serving": false, "terminating": false}));
    assert_eq!(conditions[2], &json!({"ready": false, "serving": true, "terminating": true}));
    assert!(objects.iter().all(|object| slices::is_ours(object, "s", SLICE_MANAGER)));
    let have: Vec<&Value> = objects.iter().collect();
    assert!(slices::changes(&origin(&service), &key, &found(&pods), &have).is_empty(), "nothing to write twice");
    let actions = slices::changes(&origin(&service), &key, &found(&pods[..1]), &have);
    let mut verbs: Vec<&str> = actions.iter().map(Action::verb).collect();
    verbs.sort_unstable();
    assert_eq!(verbs, ["delete", "update"]);
}

#[test]
fn many_pods_are_spread_over_slices() {
    let pods: Vec<PodView> = (0..250).map(|index| pod(&format!("p{index:03}"), json!({}))).collect();
    let service = service(json!([{"port": 80, "protocol": "TCP"}]));
    assert_eq!(slices::changes(&origin(&service), &Key::new("n", "s"), &found(&pods), &[]).len(), 3);
}

/// A world with one service, and what a controller does about it until it is content.
struct Written {
    world: World,
    key: Key,
}

impl Written {
    fn put(&mut self, resource: &Resource, object: Value) {
        self.world.put(resource, object);
    }

    /// The slices in the end.
    fn settle(&mut self) -> Vec<Value> {
        for _ in 0..10 {
            let actions = reconcile(&self.world, &self.key, true).actions;
            if actions.is_empty() {
                return self.world.within(&Resource::endpoint_slices(), "n").cloned().collect();
            }
            for action in actions {
                match action {
                    Action::Create { resource, object, .. } | Action::Replace { resource, object, .. } => {
                        self.world.put(&resource, object);
                    }
                    Action::Delete { resource, namespace, name, .. } => {
                        self.world.remove(&resource, &Key::new(&namespace, &name));
                    }
                    other => panic!("not for endpoints: {other:?}"),
                }
            }
        }
        panic!("there is always something to do");
    }
}

fn written_endpoints() -> Value {
    json!({"metadata": {"name": "s", "namespace": "n", "uid": "e", "labels": {"mine": "1"}}, "subsets": [{
        "addresses": [{"ip": "10.1.1.1"}, {"ip": "10.1.1.2", "nodeName": "node", "hostname": "h"}],
        "notReadyAddresses": [{"ip": "10.1.1.3"}], "ports": [{"port": 5432}]}]})
}

#[test]
fn endpoints_that_somebody_wrote_are_repeated_in_slices() {
    let mut written = Written { world: World::default(), key: Key::new("n", "s") };
    let mut service = service(json!([{"port": 80}]));
    service["spec"]["selector"] = Value::Null;
    written.put(&Resource::services(), service.clone());
    assert!(written.settle().is_empty(), "nobody wrote any");
    written.put(&Resource::endpoints(), written_endpoints());
    let slices = written.settle();
    assert_eq!(slices.len(), 1);
    let slice = &slices[0];
    assert!(slices::is_ours(slice, "s", MIRROR_MANAGER) && !slices::is_ours(slice, "s", SLICE_MANAGER));
    assert_eq!(
        (&slice["metadata"]["labels"]["mine"], &slice["metadata"]["ownerReferences"][0]["kind"]),
        (&json!("1"), &json!("Endpoints"))
    );
    assert_eq!(slice["ports"], json!([{"name": "", "port": 5432, "protocol": "TCP"}]));
    let endpoints = slice["endpoints"].as_array().unwrap();
    let ready: Vec<String> = endpoints
        .iter()
        .map(|endpoint| format!("{} {}", endpoint["addresses"][0].as_str().unwrap(), endpoint["conditions"]["ready"]))
        .collect();
    assert_eq!(ready, ["10.1.1.1 true", "10.1.1.2 true", "10.1.1.3 false"]);
    assert!(slice["endpoints"][0].get("targetRef").is_none());

    for (what, field, value) in [
        ("skipped", "labels", json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
        ("a lock", "annotations", json!({"control-plane.alpha.kubernetes.io/leader": "{}"})),
        ("of a selector that was", "labels", json!({MANAGED_BY.0: MANAGED_BY.1})),
    ] {
        let mut object = written_endpoints();
        object["metadata"][field] = value;
        written.put(&Resource::endpoints(), object);
        assert!(written.settle().is_empty(), "{what}");
    }
    written.put(&Resource::endpoints(), written_endpoints());
    assert_eq!(written.settle().len(), 1);
    service["spec"]["selector"] = json!({"app": "none"});
    written.put(&Resource::services(), service.clone());
    assert!(written.settle().is_empty(), "the selector decides now");
    service["spec"]["selector"] = Value::Null;
    written.put(&Resource::services(), service);
    written.put(&Resource::endpoints(), written_endpoints());
    assert_eq!(written.settle().len(), 1);
    written.world.remove(&Resource::services(), &Key::new("n", "s"));
    assert!(written.settle().is_empty(), "they go with the service");
}
