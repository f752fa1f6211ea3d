//! The executor's endpoint and what it refuses.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    compare::{Script, scripts},
    executor::Executor,
    framework::{Framework, accept, info, launch},
    player::{JSON, Player, body_value, text},
    stream::Stream,
};

/// Needs one agent.
pub const EXECUTORS: &[Script] = scripts![
    what_is_no_call_is_refused,
    the_endpoint_takes_posts_of_known_types,
    calls_of_unknown_executors_are_refused,
    an_executor_subscribes_in_either_encoding,
    calls_need_their_parts,
    bad_updates_are_refused,
];

const PATH: &str = "/api/v1/executor";

/// A request to the agent, recorded.
async fn request(p: &mut Player, method: &str, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Result<()> {
    let address = p.agent_address("r0").await?;
    let response = p.send_to(&address, method, PATH, headers, body).await?;
    p.take(method, response).await?;
    Ok(())
}

fn subscribe(framework: &str, executor: &str) -> Value {
    json!({
        "type": "SUBSCRIBE", "framework_id": { "value": framework }, "executor_id": { "value": executor },
        "subscribe": {},
    })
}

// M286
async fn what_is_no_call_is_refused(p: &mut Player) -> Result<()> {
    let call = subscribe("f", "e").to_string();
    request(p, "POST", &[], call).await?;
    request(p, "POST", &JSON, json!({ "string": "valid_json" }).to_string()).await?;
    for kind in ["application/json", "application/x-protobuf"] {
        request(p, "POST", &[("Content-Type", kind)], "garbage").await?;
    }
    Ok(())
}

// M287
async fn the_endpoint_takes_posts_of_known_types(p: &mut Player) -> Result<()> {
    request(p, "POST", &[("Content-Type", "application/unknown")], subscribe("f", "e").to_string()).await?;
    for method in ["GET", "PUT", "DELETE"] {
        request(p, method, &[], "").await?;
    }
    let (framework, _) = launched(p).await?;
    let headers = [("Content-Type", "application/json"), ("Accept", "foo")];
    request(p, "POST", &headers, subscribe(&framework.id, "t").to_string()).await
}

// M288
async fn calls_of_unknown_executors_are_refused(p: &mut Player) -> Result<()> {
    let (framework, _) = launched(p).await?;
    let status = json!({ "task_id": { "value": "t" }, "state": "TASK_RUNNING", "source": "SOURCE_EXECUTOR",
        "uuid": "AAAAAAAAQAGAAAAAAAAAAA==" });
    for (framework_id, executor_id) in
        [("unknown", "t"), (framework.id.as_str(), "unknown"), (framework.id.as_str(), "t")]
    {
        for body in [
            json!({ "type": "SUBSCRIBE", "subscribe": {} }),
            json!({ "type": "MESSAGE", "message": { "data": "aGVsbG8=" } }),
            json!({ "type": "UPDATE", "update": { "status": status } }),
        ] {
            // The one that is known would be taken.
            if executor_id == "t" && framework_id == framework.id && body["type"] == "SUBSCRIBE" {
                continue;
            }
            let mut call = body;
            call["framework_id"] = json!({ "value": framework_id });
            call["executor_id"] = json!({ "value": executor_id });
            request(p, "POST", &JSON, call.to_string()).await?;
        }
    }
    Ok(())
}

/// A framework whose executor runs and has not subscribed.
async fn launched(p: &mut Player) -> Result<(Framework, Value)> {
    let mut framework = p.framework(info(&["*"])).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let task = p.task(&offer, "t", "t");
    p.call(&framework, "ACCEPT", accept(std::slice::from_ref(&offer), &[launch(&[task])])).await?;
    p.executor_begins(&framework, "t").await?;
    Ok((framework, offer))
}

// M289, M293
async fn an_executor_subscribes_in_either_encoding(p: &mut Player) -> Result<()> {
    for accept in [None, Some("*/*"), Some("application/json"), Some("application/x-protobuf")] {
        let (mut framework, _) = launched(p).await?;
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        let address = p.agent_address("r0").await?;
        let response = p.send_to(&address, "POST", PATH, &headers, subscribe(&framework.id, "t").to_string()).await?;
        p.note_head("SUBSCRIBE", &response);
        if accept != Some("application/x-protobuf") {
            let event = Stream::read(response).event().await?;
            p.note("executor event", &event);
        }
        p.call(&framework, "TEARDOWN", json!({})).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

async fn subscribed(p: &mut Player) -> Result<(Framework, Executor)> {
    let (framework, _) = launched(p).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    Ok((framework, executor))
}

// M290
async fn calls_need_their_parts(p: &mut Player) -> Result<()> {
    let (framework, executor) = subscribed(p).await?;
    for kind in ["SUBSCRIBE", "UPDATE", "MESSAGE"] {
        p.executor_call(&executor, kind, json!({})).await?;
    }
    let address = executor.environment.get("MESOS_AGENT_ENDPOINT").context("it knows its agent")?.clone();
    for call in [
        json!({}),
        json!({ "type": "SUBSCRIBE" }),
        json!({ "type": "MESSAGE", "framework_id": { "value": framework.id } }),
        json!({ "type": "UNKNOWN", "framework_id": { "value": framework.id }, "executor_id": { "value": "t" } }),
        json!({ "type": "HEARTBEAT", "framework_id": { "value": framework.id }, "executor_id": { "value": "t" } }),
    ] {
        let response = p.send_to(&address, "POST", PATH, &JSON, call.to_string()).await?;
        p.note_head("call", &response);
        let body = body_value(&text(response).await?);
        p.note("body", &body);
    }
    Ok(())
}

// M291
async fn bad_updates_are_refused(p: &mut Player) -> Result<()> {
    let (mut framework, mut executor) = subscribed(p).await?;
    for wrong in [
        json!({ "executor_id": { "value": "other" } }),
        json!({ "uuid": "AAAA" }),
        json!({ "uuid": null }),
        json!({ "state": "TASK_STAGING" }),
        json!({ "source": "SOURCE_MASTER" }),
        json!({ "source": null }),
        json!({ "agent_id": { "value": "other" } }),
    ] {
        let mut status = executor.next_status("t", "TASK_RUNNING");
        executor.says_again();
        for (field, value) in wrong.as_object().into_iter().flatten() {
            status[field] = value.clone();
            if let (Some(fields), true) = (status.as_object_mut(), value.is_null()) {
                fields.remove(field);
            }
        }
        p.executor_call(&executor, "UPDATE", json!({ "update": { "status": status } })).await?;
    }
    p.passes_on(&mut executor, &mut framework, "t", "TASK_RUNNING").await
}
