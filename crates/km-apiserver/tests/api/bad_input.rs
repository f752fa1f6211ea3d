//! Requests that must be refused, each with the reason that programs read and the message that people do.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{CONFIG_MAPS, DEPLOYMENTS, PODS, TestServer, assert_status, config_map, deployment, pod};

#[tokio::test]
async fn refusals() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("there")).await;
    server.create(CONFIG_MAPS, &config_map("there", "1")).await;
    let with = |mut object: Value, pointer: &str, value: Value| {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value;
        object
    };
    let strict = |path: &str| format!("{path}?fieldValidation=Strict");
    let mut no_selector = deployment("d");
    no_selector["spec"].as_object_mut().unwrap().remove("selector");
    let cases: Vec<(&str, Method, String, Value, u16, &str, &str)> = vec![
        (
            "duplicate name",
            Method::POST,
            PODS.into(),
            pod("there"),
            409,
            "AlreadyExists",
            "pods \"there\" already exists",
        ),
        (
            "unknown field",
            Method::POST,
            strict(PODS),
            with(pod("x"), "/spec/nope", 1.into()),
            400,
            "BadRequest",
            "strict decoding error: unknown field \"spec.nope\"",
        ),
        (
            "unknown field deep down",
            Method::POST,
            strict(DEPLOYMENTS),
            with(deployment("x"), "/spec/template/spec/containers/0/imge", "i".into()),
            400,
            "BadRequest",
            "unknown field \"spec.template.spec.containers[0].imge\"",
        ),
        (
            "wrong type",
            Method::POST,
            DEPLOYMENTS.into(),
            with(deployment("x"), "/spec/replicas", "two".into()),
            400,
            "BadRequest",
            "spec.replicas",
        ),
        ("name that is no DNS name", Method::POST, PODS.into(), pod("Not_DNS"), 422, "Invalid", "metadata.name"),
        (
            "no containers",
            Method::POST,
            PODS.into(),
            with(pod("x"), "/spec/containers", json!([])),
            422,
            "Invalid",
            "spec.containers",
        ),
        ("no selector", Method::POST, DEPLOYMENTS.into(), no_selector, 422, "Invalid", "spec.selector"),
        (
            "no name",
            Method::POST,
            PODS.into(),
            with(pod("x"), "/metadata/name", Value::Null),
            422,
            "Invalid",
            "name or generateName is required",
        ),
        (
            "version on create",
            Method::POST,
            PODS.into(),
            with(pod("x"), "/metadata/resourceVersion", "7".into()),
            400,
            "BadRequest",
            "resourceVersion should not be set",
        ),
        (
            "other namespace",
            Method::POST,
            PODS.into(),
            with(pod("x"), "/metadata/namespace", "kube-system".into()),
            400,
            "BadRequest",
            "does not match the namespace sent on the request",
        ),
        (
            "missing namespace",
            Method::POST,
            "/api/v1/namespaces/nope/pods".into(),
            pod("x"),
            404,
            "NotFound",
            "namespaces \"nope\" not found",
        ),
        (
            "other kind",
            Method::POST,
            PODS.into(),
            config_map("x", ""),
            400,
            "BadRequest",
            "does not match the expected kind",
        ),
        (
            "missing object",
            Method::PUT,
            format!("{PODS}/nope"),
            pod("nope"),
            404,
            "NotFound",
            "pods \"nope\" not found",
        ),
        (
            "other name",
            Method::PUT,
            format!("{PODS}/there"),
            pod("x"),
            400,
            "BadRequest",
            "does not match the name on the URL",
        ),
        (
            "old version",
            Method::PUT,
            format!("{CONFIG_MAPS}/there"),
            with(config_map("there", "2"), "/metadata/resourceVersion", "1".into()),
            409,
            "Conflict",
            "the object has been modified",
        ),
        (
            "missing on delete",
            Method::DELETE,
            format!("{PODS}/nope"),
            Value::Null,
            404,
            "NotFound",
            "pods \"nope\" not found",
        ),
        (
            "unknown kind",
            Method::GET,
            "/api/v1/nopes".into(),
            Value::Null,
            404,
            "NotFound",
            "could not find the requested resource",
        ),
        (
            "unknown group",
            Method::GET,
            "/apis/nope/v1/x".into(),
            Value::Null,
            404,
            "NotFound",
            "could not find the requested resource",
        ),
        (
            "unknown path",
            Method::GET,
            "/nope".into(),
            Value::Null,
            404,
            "NotFound",
            "could not find the requested resource",
        ),
        (
            "wrong method",
            Method::POST,
            format!("{PODS}/there"),
            pod("there"),
            405,
            "MethodNotAllowed",
            "does not allow this method",
        ),
        (
            "bad label selector",
            Method::GET,
            format!("{PODS}?labelSelector=a=b=c"),
            Value::Null,
            400,
            "BadRequest",
            "labelSelector",
        ),
        (
            "bad field",
            Method::GET,
            format!("{PODS}?fieldSelector=x=y"),
            Value::Null,
            400,
            "BadRequest",
            "field label not supported: x",
        ),
        ("bad limit", Method::GET, format!("{PODS}?limit=x"), Value::Null, 400, "BadRequest", "limit"),
        (
            "bad version",
            Method::GET,
            format!("{PODS}?resourceVersion=x"),
            Value::Null,
            400,
            "BadRequest",
            "resourceVersion",
        ),
        ("bad dry run", Method::POST, format!("{PODS}?dryRun=x"), pod("x"), 422, "Invalid", "dryRun"),
        (
            "permanent namespace",
            Method::DELETE,
            "/api/v1/namespaces/default".into(),
            Value::Null,
            403,
            "Forbidden",
            "may not be deleted",
        ),
    ];
    for (what, method, path, body, code, reason, message) in cases {
        println!("{what}");
        let mut request = server.request(method, &path);
        if !body.is_null() {
            request = request.json(&body);
        }
        assert_status(&server.send(request).await, code, reason, message);
    }
    assert_eq!(server.get(PODS).await.1["items"].as_array().unwrap().len(), 1, "nothing came to be");
}

/// kubectl reads the details of every 404, and ends in a panic where there are none.
#[tokio::test]
async fn what_is_not_there_has_details() {
    let server = TestServer::start().await;
    server.create(PODS, &pod("there")).await;
    let pods = [format!("{PODS}/nope"), format!("{PODS}/there/nope")];
    for path in ["/nope", "/api/v1/nopes", "/apis/nope/v1/x", "/openapi/v3/nope"].map(str::to_owned).iter().chain(&pods)
    {
        let (code, status) = server.get(path).await;
        assert_eq!(code, 404, "{path}");
        assert!(status["details"].is_object(), "{path}: {status}");
    }
}

#[tokio::test]
async fn subresources_that_only_kubernetes_has_are_named() {
    let server = TestServer::start().await;
    for missing in [
        "pods/exec",
        "pods/attach",
        "pods/portforward",
        "pods/ephemeralcontainers",
        "pods/proxy",
        "services/proxy",
        "nodes/proxy",
        "serviceaccounts/token",
    ] {
        let (resource, subresource) = missing.split_once('/').unwrap();
        let namespace = if resource == "nodes" { "" } else { "/namespaces/default" };
        let path = format!("/api/v1{namespace}/{resource}/any/{subresource}");
        for method in [Method::GET, Method::POST] {
            let answer = server.send(server.request(method, &path)).await;
            assert_status(&answer, 501, "NotImplemented", missing);
        }
    }
}

#[tokio::test]
async fn odd_bodies() {
    let server = TestServer::start().await;
    let send = async |content_type: &str, body: String| {
        let request = server.request(Method::POST, CONFIG_MAPS).header("Content-Type", content_type).body(body);
        server.send(request).await
    };
    assert_status(&send("application/json", "{".into()).await, 400, "BadRequest", "json parse error");
    assert_status(&send("text/csv", "a,b".into()).await, 415, "UnsupportedMediaType", "application/json");
    assert_status(&send("application/vnd.kubernetes.protobuf", "{}".into()).await, 400, "BadRequest", "protobuf");
    let large = config_map("large", &"x".repeat(4 << 20));
    assert_status(&send("application/json", large.to_string()).await, 413, "RequestEntityTooLarge", "limit");
    let (code, created) = send("application/yaml", "metadata: {name: from-yaml}\ndata: {a: b}\n".into()).await;
    assert_eq!((code, &created["kind"], &created["data"]["a"]), (201, &json!("ConfigMap"), &json!("b")));

    let twice =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice"},"data":{"a":"1"},"data":{"a":"2"}}"#;
    let path = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let request = server.request(Method::POST, &path).header("Content-Type", "application/json").body(twice);
    assert_status(&server.send(request).await, 400, "BadRequest", "duplicate field \"data\"");
    let request = server.request(Method::POST, CONFIG_MAPS).header("Content-Type", "application/json").body(twice);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["warning"], "299 - \"duplicate field \\\"data\\\"\"");

    let request = server.request(Method::GET, PODS).header("Accept", "application/vnd.kubernetes.protobuf");
    assert_status(&server.send(request).await, 406, "NotAcceptable", "application/json");
}

#[tokio::test]
async fn a_refused_patch() {
    let server = TestServer::start().await;
    server.create(CONFIG_MAPS, &config_map("c", "1")).await;
    let path = format!("{CONFIG_MAPS}/c");
    let test = json!([{ "op": "test", "path": "/data/key", "value": "2" }]);
    assert_status(&server.patch(&path, "json", &test).await, 422, "Invalid", "did not match");
    let answer = server.patch(&format!("{CONFIG_MAPS}/nope"), "merge", &json!({})).await;
    assert_status(&answer, 404, "NotFound", "configmaps \"nope\" not found");
    let old = json!({ "metadata": { "resourceVersion": "1" }, "data": { "key": "2" } });
    assert_status(&server.patch(&path, "merge", &old).await, 409, "Conflict", "has been modified");
    let request =
        server.request(Method::PATCH, &path).header("Content-Type", "application/apply-patch+yaml").body("{}");
    assert_status(&server.send(request).await, 501, "NotImplemented", "server-side apply");
}
