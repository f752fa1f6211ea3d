//! `pods/log`: the log of a container, passed through from the node's kubelet.

use axum::body::Body;
use futures::StreamExt;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::{context::Context, failure::Failure};

/// The port of a kubelet whose node doesn't name one.
const KUBELET_PORT: u64 = 10250;
/// Names the container to take when a request names none.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// What the kubelet is told as it was asked.
const PASSED_ON: [&str; 8] =
    ["follow", "previous", "timestamps", "tailLines", "sinceSeconds", "sinceTime", "limitBytes", "stream"];

/// GET.
pub async fn log(ctx: &Context) -> Result<Response<Body>, Failure> {
    let name = ctx.name()?;
    let stored = ctx.server.store.get(&ctx.key()?).ok_or_else(|| Failure::not_found(ctx.kind, name))?;
    let pod = stored.value();
    let container = container(ctx.query.get("container"), name, &pod)?;
    let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) else {
        // Not on a node yet: there can be no log.
        let why = format!("container \"{container}\" in pod \"{name}\" is waiting to start: no host assigned");
        return Err(Failure::bad_request(why));
    };
    if !ctx.query.flag("previous")
        && let Some(reason) = waiting(&pod, &container)
    {
        let why = format!("container \"{container}\" in pod \"{name}\" is waiting to start: {reason}");
        return Err(Failure::bad_request(why));
    }
    let base = kubelet_url(ctx, node)?;
    let namespace = ctx.namespace.as_deref().unwrap_or_default();
    let parameters: Vec<String> = PASSED_ON
        .iter()
        .filter_map(|parameter| ctx.query.get(parameter).map(|value| format!("{parameter}={}", encode(value))))
        .collect();
    let url = format!("{base}/containerLogs/{namespace}/{name}/{container}?{}", parameters.join("&"));
    let request = ctx.server.kubelets.0.get(&url).send();
    let unreachable = |error: reqwest::Error| {
        Failure::internal(format!("Get \"{url}\": cannot reach the kubelet of node {node}: {error:#}"))
    };
    let response = tokio::select! {
        response = request => response.map_err(unreachable)?,
        () = ctx.server.stop.cancelled() => return Err(Failure::unavailable("the server is shutting down")),
    };
    if !response.status().is_success() {
        let code = response.status();
        let text = response.text().await.unwrap_or_default();
        let text = text.trim();
        return Err(match code {
            StatusCode::BAD_REQUEST => Failure::bad_request(text),
            StatusCode::NOT_FOUND => Failure::bad_request(format!("the kubelet has no such log: {text}")),
            _ => Failure::internal(format!("the kubelet of node {node} answered {code}: {text}")),
        });
    }
    let stop = ctx.server.stop.clone();
    let stream = response.bytes_stream().take_until(async move { stop.cancelled().await });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// The container asked for, or the only one, or the one that an annotation names.
fn container(asked: Option<&str>, name: &str, pod: &Value) -> Result<String, Failure> {
    let names = |field: &str| -> Vec<&str> {
        let list = pod["spec"][field].as_array();
        list.into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
    };
    let (main, init, ephemeral) = (names("containers"), names("initContainers"), names("ephemeralContainers"));
    if let Some(asked) = asked {
        let known = main.iter().chain(&init).chain(&ephemeral).any(|name| *name == asked);
        let missing = || Failure::bad_request(format!("container {asked} is not valid for pod {name}"));
        return if known { Ok(asked.to_owned()) } else { Err(missing()) };
    }
    let preferred = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str();
    if let Some(preferred) = preferred.filter(|preferred| main.contains(preferred)) {
        return Ok(preferred.to_owned());
    }
    match main.as_slice() {
        [only] => Ok((*only).to_owned()),
        _ => {
            let mut message =
                format!("a container name must be specified for pod {name}, choose one of: [{}]", main.join(" "));
            if !init.is_empty() {
                message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(Failure::bad_request(message))
        }
    }
}

/// Why a container has not started, if it never has.
fn waiting(pod: &Value, container: &str) -> Option<String> {
    let fields = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut statuses = fields.iter().filter_map(|field| pod["status"][*field].as_array()).flatten();
    let status = statuses.find(|status| status["name"] == container);
    let Some(status) = status else { return Some("ContainerCreating".to_owned()) };
    let ran = status["restartCount"].as_i64().unwrap_or(0) > 0
        || status.pointer("/lastState/terminated").is_some_and(Value::is_object);
    let reason = status.pointer("/state/waiting/reason").and_then(Value::as_str)?;
    (!ran).then(|| reason.to_owned())
}

fn kubelet_url(ctx: &Context, node: &str) -> Result<String, Failure> {
    let kind = crate::registry::by_storage("nodes").ok_or_else(|| Failure::internal("nodes are not served"))?;
    let stored = ctx.server.store.get(&kind.key(None, node)).ok_or_else(|| Failure::not_found(kind, node))?;
    let object = stored.value();
    let addresses = object["status"]["addresses"].as_array().cloned().unwrap_or_default();
    let of_type = |kind: &str| {
        let found = addresses.iter().find(|address| address["type"] == kind);
        found.and_then(|address| address["address"].as_str().map(str::to_owned))
    };
    let host = of_type("InternalIP")
        .or_else(|| of_type("Hostname"))
        .ok_or_else(|| Failure::internal(format!("node {node} names no address of its kubelet (status.addresses)")))?;
    let port = object.pointer("/status/daemonEndpoints/kubeletEndpoint/Port").and_then(Value::as_u64);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Ok(format!("https://{host}:{}", port.unwrap_or(KUBELET_PORT)))
}

/// Values are numbers, words and times; only these characters of a time need care.
fn encode(value: &str) -> String {
    value.replace('%', "%25").replace('+', "%2B").replace('&', "%26").replace('#', "%23").replace(' ', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_container_is_chosen_or_asked_for() {
        let one = json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}});
        let two = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let marked = json!({
            "metadata": {"annotations": {DEFAULT_CONTAINER: "b"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        });
        let chosen = |asked, pod| container(asked, "p", pod).map_err(|failure| failure.status()["message"].clone());
        assert_eq!(chosen(None, &one).unwrap(), "a");
        assert_eq!(chosen(Some("i"), &one).unwrap(), "i");
        assert_eq!(chosen(None, &marked).unwrap(), "b");
        assert_eq!(
            chosen(None, &two).unwrap_err(),
            "a container name must be specified for pod p, choose one of: [a b]"
        );
        assert_eq!(chosen(Some("x"), &one).unwrap_err(), "container x is not valid for pod p");
    }

    #[test]
    fn a_container_that_ran_is_not_waiting() {
        let pod = json!({"status": {"containerStatuses": [
            {"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}},
            {"name": "b", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            {"name": "c", "state": {"running": {}}},
        ]}});
        assert_eq!(waiting(&pod, "a").as_deref(), Some("ContainerCreating"));
        assert_eq!(waiting(&pod, "b"), None);
        assert_eq!(waiting(&pod, "c"), None);
        assert_eq!(waiting(&pod, "new").as_deref(), Some("ContainerCreating"));
    }
}
