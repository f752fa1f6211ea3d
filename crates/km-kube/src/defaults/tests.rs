//! Tables and properties of `defaults`.

use super::*;
use crate::schema;
use serde_json::json;

fn applied(group: &str, kind: &str, mut object: Value) -> Value {
    apply(group, kind, &mut object);
    let mut again = object.clone();
    apply(group, kind, &mut again);
    assert_eq!(object, again, "defaults of {kind} applied twice change nothing");
    let problems = schema::check(schema::lookup(group, "v1", kind).unwrap(), &object);
    assert!(problems.is_empty(), "{problems:?}");
    object
}

#[test]
fn a_small_pod_becomes_a_whole_one() {
    let pod = applied(
        "",
        "Pod",
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "nginx", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
         "readinessProbe": {"httpGet": {"port": 80}}}],
        "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "m"}}]}}),
    );
    assert_eq!(
        pod["spec"],
        json!({
            "containers": [{"name": "c", "image": "nginx", "imagePullPolicy": "Always",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
                    "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "m", "defaultMode": 420}}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": true,
            "serviceAccountName": "default", "serviceAccount": "default", "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        })
    );
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
}

#[test]
fn what_is_given_stays() {
    let spec = json!({"containers": [{"name": "c", "image": "a:1", "imagePullPolicy": "Never", "terminationMessagePath": "/x"}],
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}], "priority": 7});
    let pod = applied("", "Pod", json!({"spec": spec}));
    for (at, want) in [
        ("/spec/containers/0/imagePullPolicy", json!("Never")),
        ("/spec/containers/0/terminationMessagePath", json!("/x")),
        ("/spec/restartPolicy", json!("Never")),
        ("/spec/terminationGracePeriodSeconds", json!(0)),
        ("/spec/tolerations", json!([{"operator": "Exists"}])),
        ("/spec/priority", json!(7)),
    ] {
        assert_eq!(pod.pointer(at), Some(&want), "{at}");
    }
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, want) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("r:5000/nginx", "Always"),
        ("r:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:aa", "IfNotPresent"),
    ] {
        let pod = applied("", "Pod", json!({"spec": {"containers": [{"name": "c", "image": image}]}}));
        assert_eq!(pod.pointer("/spec/containers/0/imagePullPolicy"), Some(&json!(want)), "{image}");
    }
}

#[test]
fn templates_get_pod_defaults_but_no_admission() {
    let deployment = applied(
        "apps",
        "Deployment",
        json!({"spec": {"selector": {}, "template": {"spec": {"containers": [
        {"name": "c", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]}}}}),
    );
    for (at, want) in [
        ("/spec/replicas", json!(1)),
        (
            "/spec/strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
        ),
        ("/spec/revisionHistoryLimit", json!(10)),
        ("/spec/progressDeadlineSeconds", json!(600)),
        ("/spec/template/spec/restartPolicy", json!("Always")),
        ("/spec/template/spec/containers/0/resources", json!({"limits": {"cpu": "1"}})),
    ] {
        assert_eq!(deployment.pointer(at), Some(&want), "{at}");
    }
    for at in [
        "/spec/template/spec/tolerations",
        "/spec/template/spec/priority",
        "/spec/template/spec/enableServiceLinks",
        "/spec/template/status",
    ] {
        assert_eq!(deployment.pointer(at), None, "{at}");
    }
}

#[test]
fn other_kinds() {
    let replication = applied(
        "",
        "ReplicationController",
        json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}}}),
    );
    assert_eq!(replication.pointer("/spec/selector/a"), Some(&json!("b")));
    assert_eq!(replication.pointer("/metadata/labels/a"), Some(&json!("b")));
    let service = applied("", "Service", json!({"spec": {"ports": [{"port": 80}], "clusterIP": "None"}}));
    assert_eq!(service.pointer("/spec/ports/0"), Some(&json!({"port": 80, "protocol": "TCP", "targetPort": 80})));
    assert_eq!(service.pointer("/spec/clusterIPs"), Some(&json!(["None"])));
    assert_eq!(service.pointer("/spec/type"), Some(&json!("ClusterIP")));
    let secret = applied("", "Secret", json!({"data": {"a": "eA=="}, "stringData": {"b": "hi"}}));
    assert_eq!(secret, json!({"type": "Opaque", "data": {"a": "eA==", "b": "aGk="}}));
    let namespace = applied("", "Namespace", json!({"metadata": {"name": "n"}}));
    assert_eq!(namespace.pointer("/metadata/labels"), Some(&json!({"kubernetes.io/metadata.name": "n"})));
    assert_eq!(namespace.pointer("/spec/finalizers"), Some(&json!(["kubernetes"])));
    let job = applied("batch", "Job", json!({"spec": {"template": {"spec": {"containers": []}}}}));
    assert_eq!((&job["spec"]["completions"], &job["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
    let slice = applied(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [], "ports": [{"port": 1}]}),
    );
    assert_eq!(slice["ports"][0], json!({"port": 1, "name": "", "protocol": "TCP"}));
    let host = applied(
        "",
        "Pod",
        json!({"spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "a:1", "ports": [{"containerPort": 8}]}]}}),
    );
    assert_eq!(host.pointer("/spec/containers/0/ports/0/hostPort"), Some(&json!(8)));
}

#[test]
fn nonsense_does_not_panic() {
    for (group, _, kind) in schema::kinds() {
        for mut object in [
            json!(null),
            json!([]),
            json!({"spec": 1, "metadata": []}),
            json!({"spec": {"template": 1, "ports": {}}, "status": "x", "data": 1, "stringData": 3, "roleRef": []}),
        ] {
            apply(group, kind, &mut object);
        }
    }
}
