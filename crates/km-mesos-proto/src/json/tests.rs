//! Tables and properties of `json`.

use serde_json::json;

use super::*;
use crate::{decode_checked, v1};

#[test]
fn an_amount_of_nothing_in_a_map_is_shown() {
    let limits = [("cpus".to_owned(), v1::value::Scalar { value: 0.0 })].into();
    let config = v1::quota::QuotaConfig { role: "a".to_owned(), limits, ..Default::default() };
    assert_eq!(to_value(&config)["limits"]["cpus"]["value"], 0.0);
    assert_eq!(from_value::<v1::quota::QuotaConfig>(&to_value(&config)).unwrap(), config);
}

#[test]
fn output_follows_the_dialect() {
    let task = v1::TaskInfo {
        name: "é\u{1F600}\n".to_owned(),
        task_id: "t".into(),
        agent_id: "a".into(),
        data: Some(vec![0, 255]),
        command: Some(v1::CommandInfo::default()),
        limits: [("cpus".to_owned(), v1::value::Scalar { value: f64::INFINITY })].into(),
        resources: vec![v1::Resource {
            name: "cpus".to_owned(),
            r#type: v1::value::Type::Scalar.into(),
            scalar: Some(v1::value::Scalar { value: 15.0 }),
            ..Default::default()
        }],
        max_completion_time: Some(v1::DurationInfo { nanoseconds: i64::MAX }),
        ..Default::default()
    };
    assert_eq!(
        to_string(&task),
        r#"{"name":"\u00e9\ud83d\ude00\n","task_id":{"value":"t"},"agent_id":{"value":"a"},"#.to_owned()
            + r#""resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":15.0}}],"data":"AP8=","#
            + r#""command":{"shell":true},"max_completion_time":{"nanoseconds":9223372036854775807},"#
            + r#""limits":{"cpus":{"value":"Infinity"}}}"#
    );
}

#[test]
fn explicit_defaults_are_shown_unless_deprecated() {
    let framework = v1::FrameworkInfo { user: "u".to_owned(), name: "n".to_owned(), ..Default::default() };
    let shown = json!({"user": "u", "name": "n", "failover_timeout": 0.0, "checkpoint": false});
    assert_eq!(to_value(&framework), shown, "role is deprecated");
    assert_eq!(to_value(&v1::Filters::default()), json!({"refuse_seconds": 5.0}));
    let docker = v1::container_info::DockerInfo { image: "i".to_owned(), ..Default::default() };
    assert_eq!(to_value(&docker), json!({"image": "i", "network": "HOST", "privileged": false}));
}

#[test]
fn input_is_lenient() {
    let call: v1::scheduler::Call = from_str(
        r#"{"type":"SUBSCRIBE","unknown":[1],"framework_id":null,
            "subscribe":{"framework_info":{"user":"u","name":"n","failover_timeout":"10","checkpoint":"true",
              "roles":"one","capabilities":[{"type":"MULTI_ROLE"},{"type":"NEWER"}]}}}"#,
    )
    .unwrap();
    let info = call.subscribe.unwrap().framework_info;
    assert_eq!((info.failover_timeout, info.checkpoint), (Some(10.0), Some(true)));
    assert_eq!(info.roles, ["one"]);
    assert_eq!(info.capabilities.iter().map(|capability| capability.r#type).collect::<Vec<_>>(), [Some(6), None]);
    assert_eq!(call.framework_id, None);
}

#[test]
fn bad_input_names_the_field() {
    let cases = [
        (json!([]), "Expecting a JSON object"),
        (json!({"type": 1}), "Field 'type': expecting a string with an enum's name, got a number"),
        (json!({"framework_id": {}}), "Missing required fields: framework_id.value"),
        (
            json!({"accept": {"offer_ids": [{"value": "a"}, {}], "operations": [{"launch": {"task_infos": [{}]}}]}}),
            "Missing required fields: accept.offer_ids[1].value, accept.operations[0].launch.task_infos[0].name, \
             accept.operations[0].launch.task_infos[0].task_id, accept.operations[0].launch.task_infos[0].agent_id",
        ),
        (json!({"framework_id": {"value": 1}}), "Field 'framework_id.value': expecting a string, got a number"),
        (json!({"framework_id": ["x"]}), "Field 'framework_id': expecting a JSON object, got an array"),
        (
            json!({"message": {"agent_id": {"value": "a"}, "executor_id": {"value": "e"}, "data": "*"}}),
            "Field 'message.data': failed to base64 decode: Invalid symbol 42, offset 0.",
        ),
        (
            json!({"accept": {"offer_ids": [], "filters": {"refuse_seconds": "soon"}}}),
            "Field 'accept.filters.refuse_seconds': expecting a number, got 'soon'",
        ),
    ];
    for (value, message) in cases {
        let error = from_value::<v1::scheduler::Call>(&value).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn integers_keep_their_range() {
    let parse = |value| from_value::<v1::Address>(&json!({"port": value})).map(|address| address.port);
    assert_eq!(parse(json!(-5)).unwrap(), -5);
    assert_eq!(parse(json!(80.0)).unwrap(), 80);
    assert_eq!(parse(json!("80")).unwrap(), 80);
    for bad in [json!(1.5), json!(3_000_000_000u32), json!("x"), json!(true)] {
        assert!(parse(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn required_fields_are_checked_in_protobuf_too() {
    use prost::Message as _;
    let missing = |bytes: &[u8]| decode_checked::<v1::scheduler::Call>(bytes).unwrap_err().to_string();
    // Field 1, framework_id, empty.
    assert_eq!(missing(&[0x0a, 0]), "Missing required fields: framework_id.value");
    // The same in two parts, of which the second has the value: parts of one message are merged.
    let whole = decode_checked::<v1::scheduler::Call>(&[0x0a, 0, 0x0a, 3, 0x0a, 1, b'f']).unwrap();
    assert_eq!(whole.framework_id, Some("f".into()));
    assert!(missing(&[0xff]).starts_with("malformed protobuf"));
    assert!(decode_checked::<v1::TaskId>(&v1::TaskId::from("").encode_to_vec()).is_ok(), "empty is not missing");
}
