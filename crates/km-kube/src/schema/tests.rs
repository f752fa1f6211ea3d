//! Tables and properties of `schema`.

use super::*;
use serde_json::json;

fn of(group: &str, version: &str, kind: &str) -> TypeRef {
    lookup(group, version, kind).unwrap_or_else(|| panic!("{group}/{version} {kind} is in the table"))
}

#[test]
fn served_kinds_are_there_and_others_not() {
    assert!(kinds().len() > 40);
    for (group, version, kind) in kinds() {
        assert_eq!(of(group, version, kind).shape(), Shape::Object, "{kind}");
    }
    assert!(lookup("apps", "v1", "Pod").is_none() && lookup("", "v2", "Pod").is_none());
}

#[test]
fn merge_rules_of_a_pod() {
    let spec = of("", "v1", "Pod").field("spec").unwrap();
    let containers = spec.field("containers").unwrap();
    assert!(containers.patch_merges());
    assert_eq!((containers.merge_key(), containers.list_type()), (Some("name"), ListType::Map));
    let ports = containers.items().unwrap().field("ports").unwrap();
    assert_eq!(ports.list_map_keys(), ["containerPort", "protocol"]);
    assert!(!spec.field("tolerations").unwrap().patch_merges());
    assert!(spec.field("nodeSelector").unwrap().is_atomic_map());
    let finalizers = of("", "v1", "Pod").field("metadata").unwrap().field("finalizers").unwrap();
    assert_eq!((finalizers.list_type(), finalizers.patch_merges()), (ListType::Set, true));
}

#[test]
fn problems_name_the_path() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "labels": {"a": 1}},
        "spec": {"replicas": "x", "foo": 1, "paused": "no", "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"metadata": {"creationTimestamp": null}, "spec": {"containers": [
                {"name": "c", "bar": {}, "resources": {"limits": {"cpu": 1, "memory": "1Xi"}}, "ports": {}}]}}}
    });
    let problems = check(of("apps", "v1", "Deployment"), &deployment);
    assert_eq!(
        problems.unknown,
        ["unknown field \"spec.foo\"", "unknown field \"spec.template.spec.containers[0].bar\""]
    );
    assert_eq!(
        problems.wrong,
        [
            "metadata.labels.a: expected string, got number 1",
            "spec.paused: expected boolean, got string \"no\"",
            "spec.replicas: expected integer, got string \"x\"",
            "spec.template.spec.containers[0].ports: expected array, got object",
            "spec.template.spec.containers[0].resources.limits.memory: expected quantity, got string \"1Xi\"",
        ]
    );
}

#[test]
fn scalars() {
    let pod = of("", "v1", "Pod");
    for (object, fine) in [
        (json!({"spec": {"priority": 3_000_000_000_i64}}), false),
        (json!({"spec": {"priority": 3}}), true),
        (json!({"spec": {"priority": 3.0}}), true),
        (json!({"spec": {"priority": 3.5}}), false),
        (json!({"metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"}}), true),
        (json!({"metadata": {"creationTimestamp": "yesterday"}}), false),
        (json!({"spec": null}), true),
        (json!({"spec": []}), false),
        (json!("pod"), false),
    ] {
        assert_eq!(check(pod, &object).is_empty(), fine, "{object}");
    }
    let secret = of("", "v1", "Secret");
    assert!(check(secret, &json!({"data": {"a": "aGk=", "b": ""}})).is_empty());
    assert!(!check(secret, &json!({"data": {"a": "aGk"}})).is_empty());
    assert!(!check(secret, &json!({"data": {"a": "a-k="}})).is_empty());
}

#[test]
fn pruning_drops_unknown_fields_and_nulls() {
    let mut pod = json!({"metadata": {"name": "x", "creationTimestamp": null, "annotations": {"a": null}},
        "spec": {"foo": 1, "containers": [{"name": "c", "bar": 1}], "volumes": [{"name": "v", "emptyDir": {}}]}});
    prune(of("", "v1", "Pod"), &mut pod);
    assert_eq!(
        pod,
        json!({"metadata": {"name": "x", "annotations": {"a": ""}},
            "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "emptyDir": {}}]}})
    );
}

#[test]
fn fields_given_twice() {
    let text = br#"{"a": {"b": 1, "b": [null, true, 1.5, "x"]}, "c": [{"d": 1, "d": 2}], "a": 1}"#;
    assert_eq!(
        duplicate_fields(text),
        ["duplicate field \"a.b\"", "duplicate field \"c[0].d\"", "duplicate field \"a\""]
    );
    assert!(duplicate_fields(b"{\"a\": {\"b\": 1}, \"b\": 2}").is_empty());
}

#[test]
fn openapi_documents_are_closed() {
    for (group, version, _) in kinds() {
        let document = openapi_v3(group, version);
        let schemas = document.pointer("/components/schemas").unwrap().as_object().unwrap();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"").skip(1) {
            let name = reference.split('"').next().unwrap().trim_start_matches("#/components/schemas/");
            assert!(schemas.contains_key(name), "{group}/{version} refers to {name}");
        }
    }
    let core = openapi_v3("", "v1");
    let pod = core.pointer("/components/schemas/io.k8s.api.core.v1.Pod/x-kubernetes-group-version-kind/0/kind");
    assert_eq!(pod, Some(&json!("Pod")));
    assert!(openapi_v3("nobody", "v1").pointer("/components/schemas").unwrap().as_object().unwrap().is_empty());
}
