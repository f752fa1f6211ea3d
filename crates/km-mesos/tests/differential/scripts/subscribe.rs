//! Subscribing: HTTP's side of it, refusals, and the framework's information.

use anyhow::Result;
use serde_json::json;

use crate::{
    compare::{Script, scripts},
    framework::{Framework, again, info, old_info, with},
    player::{Player, SCHEDULER},
};

/// What is judged before there is a framework.
pub const HTTP: &[Script] = scripts![
    a_body_without_content_type_is_refused,
    json_that_is_no_call_is_refused,
    garbage_is_refused,
    an_unknown_content_type_is_refused,
    only_post_is_allowed,
    an_unacceptable_accept_is_refused,
    the_answer_is_json_unless_asked_otherwise,
    a_call_without_its_parts_is_refused,
    a_subscribe_with_a_stream_id_is_refused,
    an_acknowledgement_needs_a_whole_uuid,
    calls_of_unknown_frameworks_are_refused,
    unknown_call_types_are_refused,
];

/// What SUBSCRIBE makes of a framework's information.
pub const SUBSCRIPTIONS: &[Script] = scripts![
    a_stream_begins_with_subscribed_and_a_heartbeat,
    subscribed_tells_about_the_master,
    bad_roles_are_refused,
    a_retried_subscribe_keeps_the_id,
    an_empty_id_gets_a_new_one,
    framework_ids_are_checked,
    failover_timeouts_must_be_representable,
    suppressed_roles_must_be_roles_of_the_framework,
    a_framework_without_roles_gets_no_offers,
    a_call_needs_the_current_stream_id,
];

const JSON: (&str, &str) = ("Content-Type", "application/json");

// M001
async fn a_body_without_content_type_is_refused(p: &mut Player) -> Result<()> {
    p.request("POST", SCHEDULER, &[], r#"{"type":"SUBSCRIBE"}"#).await?;
    Ok(())
}

// M002
async fn json_that_is_no_call_is_refused(p: &mut Player) -> Result<()> {
    for body in [r#"{"string":"valid_json"}"#, "{}", "[]", "1", r#"{"type":"NONSENSE"}"#, r#"{"type":1}"#] {
        p.request("POST", SCHEDULER, &[JSON], body).await?;
    }
    Ok(())
}

// M003
async fn garbage_is_refused(p: &mut Player) -> Result<()> {
    for kind in ["application/json", "application/x-protobuf"] {
        for body in ["MALFORMED_CONTENT", "", "{"] {
            p.request("POST", SCHEDULER, &[("Content-Type", kind)], body).await?;
        }
    }
    Ok(())
}

// M004
async fn an_unknown_content_type_is_refused(p: &mut Player) -> Result<()> {
    let body = json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": info(&["*"]) } }).to_string();
    for kind in ["application/unknown", "application/json; charset=utf-8", "text/plain", "Application/JSON"] {
        p.request("POST", SCHEDULER, &[("Content-Type", kind)], body.clone()).await?;
    }
    Ok(())
}

// M005
async fn only_post_is_allowed(p: &mut Player) -> Result<()> {
    for method in ["GET", "PUT", "DELETE"] {
        p.request(method, SCHEDULER, &[], "").await?;
    }
    Ok(())
}

// M006
async fn an_unacceptable_accept_is_refused(p: &mut Player) -> Result<()> {
    let body = json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": info(&["*"]) } }).to_string();
    for accept in ["foo", "text/plain", "application/xml, text/html"] {
        p.request("POST", SCHEDULER, &[JSON, ("Accept", accept)], body.clone()).await?;
    }
    let frameworks = p.state("/frameworks").await?;
    p.note("frameworks", &frameworks["frameworks"]);
    Ok(())
}

// M007
async fn the_answer_is_json_unless_asked_otherwise(p: &mut Player) -> Result<()> {
    let call = json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": info(&["*"]) } });
    let accepts = ["*/*", "application/*", "application/json", "application/x-protobuf, application/json"];
    for accept in accepts {
        p.open(&[JSON, ("Accept", accept)], &call).await?;
    }
    p.open(&[JSON], &call).await?;
    // Only the head: events in protobuf are not read here.
    let protobuf = [JSON, ("Accept", "application/x-protobuf")];
    let response = p.send("POST", SCHEDULER, &protobuf, call.to_string()).await?;
    p.note_head("protobuf", &response);
    Ok(())
}

async fn a_call_without_its_parts_is_refused(p: &mut Player) -> Result<()> {
    let kinds = [
        "SUBSCRIBE",
        "TEARDOWN",
        "ACCEPT",
        "DECLINE",
        "ACCEPT_INVERSE_OFFERS",
        "DECLINE_INVERSE_OFFERS",
        "REVIVE",
        "KILL",
        "SHUTDOWN",
        "ACKNOWLEDGE",
        "ACKNOWLEDGE_OPERATION_STATUS",
        "RECONCILE",
        "RECONCILE_OPERATIONS",
        "MESSAGE",
        "REQUEST",
        "SUPPRESS",
        "UPDATE_FRAMEWORK",
    ];
    for kind in kinds {
        p.note("type", &kind.into());
        p.post(SCHEDULER, &[], &json!({ "type": kind })).await?;
        p.post(SCHEDULER, &[], &json!({ "type": kind, "framework_id": { "value": "nobody" } })).await?;
    }
    let other = json!({ "type": "SUBSCRIBE", "framework_id": { "value": "a" },
        "subscribe": { "framework_info": with(info(&["*"]), "id", json!({ "value": "b" })) } });
    p.post(SCHEDULER, &[], &other).await?;
    Ok(())
}

// M011
async fn a_subscribe_with_a_stream_id_is_refused(p: &mut Player) -> Result<()> {
    let call = json!({ "type": "SUBSCRIBE", "subscribe": { "framework_info": info(&["*"]) } });
    p.post(SCHEDULER, &[("Mesos-Stream-Id", "e9bc8a5b-51b4-4e3c-a4a0-c1b7d9b3c2aa")], &call).await?;
    Ok(())
}

// M015
async fn an_acknowledgement_needs_a_whole_uuid(p: &mut Player) -> Result<()> {
    for uuid in ["YmFk", "", "AAAAAAAAAAAAAAAAAAAAAA==", "not base64!"] {
        let acknowledge = json!({ "agent_id": { "value": "a" }, "task_id": { "value": "t" }, "uuid": uuid });
        let call = json!({ "type": "ACKNOWLEDGE", "framework_id": { "value": "f" }, "acknowledge": acknowledge });
        p.post(SCHEDULER, &[], &call).await?;
    }
    Ok(())
}

async fn calls_of_unknown_frameworks_are_refused(p: &mut Player) -> Result<()> {
    for stream in [None, Some(("Mesos-Stream-Id", "e9bc8a5b-51b4-4e3c-a4a0-c1b7d9b3c2aa"))] {
        for kind in ["REVIVE", "SUPPRESS", "TEARDOWN"] {
            let call = json!({ "type": kind, "framework_id": { "value": "nobody" } });
            p.post(SCHEDULER, stream.as_slice(), &call).await?;
        }
    }
    Ok(())
}

async fn unknown_call_types_are_refused(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&["*"])).await?;
    // Not UNKNOWN itself: it crashes the master of Apache Mesos 1.11.
    p.call(&framework, "DANCE", json!({})).await?;
    p.offer(&mut framework).await?;
    Ok(())
}

// M008
async fn a_stream_begins_with_subscribed_and_a_heartbeat(p: &mut Player) -> Result<()> {
    let subscribe = json!({ "framework_info": info(&["*"]), "suppressed_roles": ["*"] });
    let mut framework = p.subscribe(subscribe).await?;
    for _ in 0..2 {
        let event = framework.stream.next().await?.unwrap_or_default();
        p.note("event", &event);
        if let Some(id) = event["subscribed"]["framework_id"]["value"].as_str() {
            framework.id = id.to_owned();
        }
    }
    p.quiet(&mut framework).await
}

// M009
async fn subscribed_tells_about_the_master(p: &mut Player) -> Result<()> {
    let mut framework = p.subscribe(json!({ "framework_info": info(&["*"]) })).await?;
    let event = p.expect(&mut framework, "SUBSCRIBED").await?;
    let master = p.operator(json!({ "type": "GET_MASTER" })).await?;
    let same = event["subscribed"]["master_info"] == master["get_master"]["master_info"];
    p.note("the same master", &same.into());
    Ok(())
}

// M010, M033
async fn bad_roles_are_refused(p: &mut Player) -> Result<()> {
    let long = "r".repeat(300);
    let roles = ["/test/test1", "a/", "a//b", ".", "..", "a/..", "-a", "a/-b", "a b", "a\tb", "*/a", "", "a/*"];
    for role in roles {
        let mut framework = p.subscribe(json!({ "framework_info": info(&[role]) })).await?;
        p.closed(&mut framework).await?;
    }
    p.framework(info(&[&long])).await?;
    let both = with(info(&["a"]), "role", "a".into());
    let only_role = with(info(&[]), "role", "a".into());
    let without_capability = with(info(&["a"]), "capabilities", json!([]));
    for information in [both, only_role, without_capability, info(&["a", "a"]), old_info(Some("/a"))] {
        let mut framework = p.subscribe(json!({ "framework_info": information })).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M012
async fn a_retried_subscribe_keeps_the_id(p: &mut Player) -> Result<()> {
    let first = p.framework(info(&["*"])).await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    let heartbeat = second.stream.next().await?;
    p.note("then", &heartbeat.map(|event| event["type"].clone()).into());
    p.note("same id", &(first.id == second.id).into());
    p.note("other stream", &(first.stream_id != second.stream_id).into());
    Ok(())
}

// M025
async fn an_empty_id_gets_a_new_one(p: &mut Player) -> Result<()> {
    p.framework(with(info(&["*"]), "id", json!({ "value": "" }))).await?;
    p.framework(info(&["*"])).await?;
    Ok(())
}

// M034
async fn framework_ids_are_checked(p: &mut Player) -> Result<()> {
    let long = "f".repeat(300);
    for id in ["chosen-by-me", "a/b", "a\\b", ".", "..", &long, "a b"] {
        let information = with(info(&["*"]), "id", json!({ "value": id }));
        let mut framework = p.subscribe(json!({ "framework_info": information })).await?;
        let event = framework.stream.event().await?;
        p.note("event", &event);
    }
    Ok(())
}

// M026
async fn failover_timeouts_must_be_representable(p: &mut Player) -> Result<()> {
    for timeout in [1e12, -1.0, 9.3e9, -1e12] {
        let information = with(info(&["*"]), "failover_timeout", timeout.into());
        let mut framework = p.subscribe(json!({ "framework_info": information })).await?;
        let event = framework.stream.event().await?;
        p.note("event", &event);
    }
    Ok(())
}

async fn suppressed_roles_must_be_roles_of_the_framework(p: &mut Player) -> Result<()> {
    for suppressed in ["b", "/bad"] {
        let subscribe = json!({ "framework_info": info(&["a"]), "suppressed_roles": [suppressed] });
        let mut framework = p.subscribe(subscribe).await?;
        p.closed(&mut framework).await?;
    }
    Ok(())
}

// M033
async fn a_framework_without_roles_gets_no_offers(p: &mut Player) -> Result<()> {
    let mut framework = p.framework(info(&[])).await?;
    p.quiet(&mut framework).await
}

// M013, M014
async fn a_call_needs_the_current_stream_id(p: &mut Player) -> Result<()> {
    let first = p.framework(info(&["*"])).await?;
    let call = json!({ "type": "TEARDOWN", "framework_id": { "value": first.id } });
    p.post(SCHEDULER, &[], &call).await?;
    p.post(SCHEDULER, &[("Mesos-Stream-Id", "")], &call).await?;
    let mut second = p.subscribed(json!({ "framework_info": again(info(&["*"]), &first) })).await?;
    p.call(&first, "TEARDOWN", json!({})).await?;
    p.call(&first, "DECLINE", json!({ "decline": { "offer_ids": [] } })).await?;
    p.offer(&mut second).await?;
    let second = Framework { id: first.id.clone(), ..second };
    p.call(&second, "TEARDOWN", json!({})).await?;
    p.call(&second, "REVIVE", json!({})).await?;
    Ok(())
}
