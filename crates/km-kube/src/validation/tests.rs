//! Tables and properties of `validation`.

use super::*;
use crate::{defaults, schema};
use serde_json::json;

mod storage;

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn created(group: &str, kind: &str, mut object: Value) -> Vec<String> {
    defaults::apply(group, kind, &mut object);
    texts(&create(group, kind, &object))
}

fn pod_with(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn container_with(more: Value) -> Value {
    let mut container = json!({"name": "c", "image": "a"});
    for (name, value) in more.as_object().unwrap() {
        container[name] = value.clone();
    }
    pod_with(json!({"containers": [container]}))
}

#[track_caller]
fn one(errors: &[String], want: &str) {
    assert!(errors.len() == 1 && errors[0].starts_with(want), "want only {want:?}, got {errors:#?}");
}

#[test]
fn good_objects_pass() {
    for (group, kind, object) in [
        ("", "Pod", container_with(json!({"ports": [{"containerPort": 80, "name": "http"}]}))),
        ("", "Service", json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}})),
        ("", "Service", json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}})),
        ("", "ConfigMap", json!({"metadata": {"generateName": "c-"}, "data": {"a.b": "c"}})),
        ("", "Secret", json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}})),
        ("", "Namespace", json!({"metadata": {"name": "n"}})),
        ("apps", "Deployment", deployment()),
        (
            "batch",
            "Job",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRole",
            json!({"metadata": {"name": "system:node"}, "rules": [{"verbs": ["get"]}]}),
        ),
    ] {
        assert_eq!(created(group, kind, object.clone()), Vec::<String>::new(), "{kind} {object}");
    }
}

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "a"}]}}}})
}

#[test]
fn field_references_name_what_the_downward_api_has() {
    let variable = |path: &str| {
        created(
            "",
            "Pod",
            container_with(json!({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})),
        )
    };
    let file = |path: &str| {
        let volume = json!({"name": "v", "downwardAPI": {"items": [{"path": "f", "fieldRef": {"fieldPath": path}}]}});
        created("", "Pod", pod_with(json!({"containers": [{"name": "c", "image": "a"}], "volumes": [volume]})))
    };
    let (good, wrong) = ("", "Unsupported value: ");
    for (path, as_variable, as_file) in [
        ("metadata.name", good, good),
        ("metadata.uid", good, good),
        ("metadata.labels", wrong, good),
        ("metadata.annotations", wrong, good),
        ("metadata.labels['app']", good, good),
        ("metadata.annotations['example.com/a']", good, good),
        ("metadata.labels['a b']", "Invalid value: ", "Invalid value: "),
        ("metadata.labels['app'", wrong, wrong),
        ("status.podIP", good, wrong),
        ("spec.nodeName", good, wrong),
        ("spec.foo", wrong, wrong),
        ("", "Required value", "Required value"),
    ] {
        let (variables, files) = ("spec.containers[0].env[0].valueFrom", "spec.volumes[0].downwardAPI.items[0]");
        for (errors, expected, place) in [(variable(path), as_variable, variables), (file(path), as_file, files)] {
            if expected == good {
                assert_eq!(errors, Vec::<String>::new(), "{path}");
            } else {
                one(&errors, &format!("{place}.fieldRef.fieldPath: {expected}"));
            }
        }
    }
}

#[test]
fn metadata_rules() {
    let named = |metadata: Value| created("", "ConfigMap", json!({"metadata": metadata}));
    one(&named(json!({})), "metadata.name: Required value: name or generateName is required");
    one(&named(json!({"name": "A"})), "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must");
    one(&named(json!({"name": "a", "labels": {"-": "b"}})), "metadata.labels: Invalid value: \"-\": name part must");
    one(
        &named(json!({"name": "a", "labels": {"a": "b c"}})),
        "metadata.labels: Invalid value: \"b c\": a valid label must",
    );
    one(
        &named(json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x"}]})),
        "metadata.ownerReferences[0].uid: Invalid value: null: must not be empty",
    );
    one(
        &created("", "Namespace", json!({"metadata": {"name": "a.b"}})),
        "metadata.name: Invalid value: \"a.b\": a lowercase RFC 1123 label",
    );
}

#[test]
fn container_rules() {
    let table = [
        (json!({"image": ""}), "spec.containers[0].image: Required value"),
        (json!({"name": "A_"}), "spec.containers[0].name: Invalid value: \"A_\": a lowercase RFC 1123 label"),
        (
            json!({"imagePullPolicy": "Often"}),
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ),
        (
            json!({"ports": [{"containerPort": 70000}]}),
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (json!({"ports": [{"containerPort": 0}]}), "spec.containers[0].ports[0].containerPort: Required value"),
        (
            json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}),
            "spec.containers[0].ports[1].name: Duplicate value: \"a\"",
        ),
        (
            json!({"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]}),
            "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//9\"",
        ),
        (
            json!({"ports": [{"containerPort": 1, "protocol": "tcp"}]}),
            "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\"",
        ),
        (
            json!({"env": [{"name": "a=b"}]}),
            "spec.containers[0].env[0].name: Invalid value: \"a=b\": a valid environment variable name",
        ),
        (json!({"env": [{"value": "b"}]}), "spec.containers[0].env[0].name: Required value"),
        (
            json!({"env": [{"name": "a", "valueFrom": {}}]}),
            "spec.containers[0].env[0].valueFrom: Invalid value: {}: must specify one of",
        ),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (json!({"resources": {"limits": {"cpu": "-1"}, "requests": {"cpu": "-1"}}, "name": "c"}), ""),
        (json!({"livenessProbe": {}}), "spec.containers[0].livenessProbe: Required value: must specify a handler type"),
        (
            json!({"readinessProbe": {"httpGet": {"port": 0}}}),
            "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between",
        ),
        (
            json!({"lifecycle": {"preStop": {"exec": {}}}}),
            "spec.containers[0].lifecycle.preStop.exec.command: Required value",
        ),
    ];
    for (container, want) in table {
        let errors = created("", "Pod", container_with(container.clone()));
        if want.is_empty() {
            assert_eq!(errors.len(), 2, "{container}: {errors:?}");
        } else {
            one(&errors, want);
        }
    }
}

#[test]
fn pod_rules() {
    let c = json!([{"name": "c", "image": "a"}]);
    let table = [
        (json!({}), "spec.containers: Required value"),
        (
            json!({"containers": [{"name": "c", "image": "a"}, {"name": "c", "image": "a"}]}),
            "spec.containers[1].name: Duplicate value: \"c\"",
        ),
        (json!({"containers": c, "initContainers": c}), "spec.initContainers[0].name: Duplicate value: \"c\""),
        (json!({"containers": c, "restartPolicy": "Maybe"}), "spec.restartPolicy: Unsupported value: \"Maybe\""),
        (
            json!({"containers": c, "volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
        ),
        (
            json!({"containers": c, "volumes": [{"name": "v", "secret": {}}]}),
            "spec.volumes[0].secret.secretName: Required value",
        ),
        (
            json!({"containers": c, "volumes": [{"name": "v"}, {"name": "v"}]}),
            "spec.volumes[1].name: Duplicate value: \"v\"",
        ),
        (
            json!({"containers": c, "tolerations": [{"operator": "Equal"}]}),
            "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty",
        ),
        (
            json!({"containers": c, "ephemeralContainers": []}),
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ),
        (
            json!({"containers": c, "activeDeadlineSeconds": 0}),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and",
        ),
        (
            json!({"containers": c, "nodeSelector": {"a b": "c"}}),
            "spec.nodeSelector: Invalid value: \"a b\": name part must",
        ),
        (
            json!({"containers": c, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value",
        ),
    ];
    for (spec, want) in table {
        one(&created("", "Pod", pod_with(spec)), want);
    }
}

#[test]
fn workload_rules() {
    let table = [
        ("/spec/selector", json!(null), "spec.selector: Required value"),
        ("/spec/selector", json!({}), "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        (
            "/spec/template/metadata/labels",
            json!({"a": "c"}),
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        ),
        (
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
        ("/spec/template/spec/containers/0/image", json!(""), "spec.template.spec.containers[0].image: Required value"),
        ("/spec/replicas", json!(-1), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            "/spec/strategy",
            json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ),
        (
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
        ),
        (
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": "x%"}}),
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x%\": a valid percent string",
        ),
        (
            "/spec/progressDeadlineSeconds",
            json!(0),
            "spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds",
        ),
    ];
    for (at, value, want) in table {
        let mut object = deployment();
        defaults::apply("apps", "Deployment", &mut object);
        *object.pointer_mut(at).unwrap() = value;
        one(&created("apps", "Deployment", object), want);
    }
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}}});
    one(
        &created("batch", "Job", job),
        "spec.template.spec.restartPolicy: Unsupported value: \"Always\": supported values: \"OnFailure\", \"Never\"",
    );
    let set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "a", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}}});
    assert_eq!(created("apps", "StatefulSet", set), Vec::<String>::new());
}

#[test]
fn service_and_config_rules() {
    let service = |spec: Value| created("", "Service", json!({"metadata": {"name": "s"}, "spec": spec}));
    one(&service(json!({})), "spec.ports: Required value");
    one(
        &service(json!({"ports": [{"port": 0, "targetPort": 1}]})),
        "spec.ports[0].port: Invalid value: 0: must be between",
    );
    one(
        &service(json!({"ports": [{"port": 1}], "type": "Odd"})),
        "spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\"",
    );
    one(
        &service(json!({"ports": [{"port": 1}], "clusterIP": "x"})),
        "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address",
    );
    one(&service(json!({"ports": [{"port": 1, "name": "a"}, {"port": 2}]})), "spec.ports[1].name: Required value");
    one(
        &service(json!({"ports": [{"port": 1, "nodePort": 30000}]})),
        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    );
    one(
        &service(json!({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]})),
        "spec.ports[1]: Duplicate value",
    );
    one(&service(json!({"type": "ExternalName"})), "spec.externalName: Required value");
    one(
        &created("", "Service", json!({"metadata": {"name": "1s"}, "spec": {"ports": [{"port": 1}]}})),
        "metadata.name: Invalid value: \"1s\": a DNS-1035 label must",
    );
    one(
        &created("", "ConfigMap", json!({"metadata": {"name": "c"}, "data": {"a/b": ""}})),
        "data[a/b]: Invalid value: \"a/b\": a valid config key must",
    );
    one(
        &created(
            "",
            "Secret",
            json!({"metadata": {"name": "c"}, "type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
        ),
        "data[tls.key]: Required value",
    );
    one(
        &created("rbac.authorization.k8s.io", "ClusterRole", json!({"metadata": {"name": "c"}, "rules": [{}]})),
        "rules[0].verbs: Required value",
    );
    one(
        &created(
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": ["x"]}]}),
        ),
        "endpoints[0].addresses[0]: Invalid value: \"x\": must be an IPv4",
    );
}

fn updated(group: &str, kind: &str, old: &Value, change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut old = old.clone();
    defaults::apply(group, kind, &mut old);
    let mut new = old.clone();
    change(&mut new);
    texts(&update(group, kind, &new, &old))
}

#[test]
fn pod_updates() {
    let pod = container_with(json!({}));
    let change = |at: &'static str, value: Value| {
        updated("", "Pod", &pod, |pod| {
            let (parent, name) = at.rsplit_once('/').unwrap();
            pod.pointer_mut(parent).unwrap()[name] = value;
        })
    };
    assert!(change("/spec/containers/0/image", json!("b")).is_empty());
    assert!(change("/spec/activeDeadlineSeconds", json!(9)).is_empty());
    assert!(change("/metadata/labels", json!({"a": "b"})).is_empty());
    one(
        &change("/spec/nodeName", json!("n")),
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
    );
    one(
        &change("/spec/containers", json!([])).into_iter().filter(|e| e.starts_with("spec:")).collect::<Vec<_>>(),
        "spec: Forbidden: pod updates may not add or remove containers",
    );
    one(
        &change("/spec/tolerations", json!([])),
        "spec.tolerations: Forbidden: existing toleration can not be modified",
    );
    one(&change("/metadata/name", json!("q")), "metadata.name: Invalid value: \"q\": field is immutable");
}

#[test]
fn other_updates() {
    one(
        &updated("apps", "Deployment", &deployment(), |d| {
            d["spec"]["selector"] = json!({"matchLabels": {"c": "d"}});
            d["spec"]["template"]["metadata"]["labels"] = json!({"c": "d"});
        }),
        "spec.selector: Invalid value: {\"matchLabels\":{\"c\":\"d\"}}: field is immutable",
    );
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}, "immutable": true});
    one(
        &updated("", "ConfigMap", &map, |m| m["data"]["a"] = json!("c")),
        "data: Forbidden: field is immutable when `immutable` is set",
    );
    one(&updated("", "ConfigMap", &map, |m| m["immutable"] = json!(false)), "immutable: Forbidden");
    let secret = json!({"metadata": {"name": "m"}, "type": "a"});
    one(&updated("", "Secret", &secret, |s| s["type"] = json!("b")), "type: Invalid value: \"b\": field is immutable");
    let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}});
    one(
        &updated("", "Service", &service, |s| {
            s["spec"]["clusterIP"] = json!("10.0.0.2");
            s["spec"]["clusterIPs"] = json!(["10.0.0.2"]);
        }),
        "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
    );
    let dying = json!({"metadata": {"name": "m", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    one(
        &updated("", "ConfigMap", &dying, |m| m["metadata"]["finalizers"] = json!(["a/b", "c/d"])),
        "metadata.finalizers: Forbidden: no new finalizers",
    );
    assert!(updated("", "ConfigMap", &dying, |m| m["metadata"]["finalizers"] = json!([])).is_empty());
}

#[test]
fn nonsense_is_refused_or_ignored_but_never_panics() {
    for (group, _, kind) in schema::kinds() {
        for object in [
            json!(null),
            json!([]),
            json!({"spec": 1, "metadata": [], "data": 3}),
            json!({"spec": {"template": 1, "ports": {}, "containers": {"a": 1}}, "metadata": {"labels": 3}}),
        ] {
            assert!(!create(group, kind, &object).is_empty());
            assert!(!update(group, kind, &object, &json!({})).is_empty());
        }
    }
}
