//! Tables and properties of `selector`.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn label_texts_match() {
    let have = labels(&[("app", "web"), ("tier", "2"), ("empty", "")]);
    for (text, want) in [
        ("", true),
        ("  ", true),
        ("app", true),
        ("!app", false),
        ("!none", true),
        ("none", false),
        ("app=web", true),
        ("app==web", true),
        ("app = web", true),
        ("app!=web", false),
        ("none!=web", true),
        ("app in (web,db)", true),
        ("app in (db)", false),
        ("app notin (db,)", true),
        ("none notin (a)", true),
        ("tier>1", true),
        ("tier<2", false),
        ("none>1", false),
        ("app=web,tier=2", true),
        ("app=web,tier=3", false),
        ("app in ( web , db ) , tier", true),
        ("empty=", true),
        ("app=", false),
        ("empty in (,a)", true),
        ("x.io/a!=b", true),
    ] {
        let selector = LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(selector.matches(&have), want, "{text}");
    }
}

#[test]
fn bad_label_texts_are_refused() {
    for text in [
        ",",
        "a,,b",
        "a=b,",
        "a in",
        "a in b",
        "a in (b",
        "a in ()b",
        "a b",
        "=a",
        "!",
        "a=b=c",
        "a>b",
        "-a",
        "a=-",
        "a in (b)c",
    ] {
        assert!(LabelSelector::parse(text).is_err(), "{text:?} must be refused");
    }
}

#[test]
fn label_objects() {
    let have = labels(&[("app", "web")]);
    for (object, want) in [
        (json!(null), false),
        (json!({}), true),
        (json!({"matchLabels": {"app": "web"}}), true),
        (json!({"matchLabels": {"app": "db"}}), false),
        (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}), true),
        (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
    ] {
        assert_eq!(LabelSelector::from_object(&object).unwrap().matches(&have), want, "{object}");
    }
    for object in [
        json!({"matchExpressions": [{"key": "app", "operator": "Is"}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
        json!({"matchLabels": {"a b": "c"}}),
        json!({"matchLabels": 1}),
    ] {
        assert!(LabelSelector::from_object(&object).is_err(), "{object}");
    }
}

#[test]
fn field_texts() {
    let selector = FieldSelector::parse(r"spec.nodeName=n1,status.phase!=Failed,metadata.name==a\,b\=c\\").unwrap();
    assert_eq!(selector.requirements().len(), 3);
    assert_eq!(selector.requires("spec.nodeName"), Some("n1"));
    assert_eq!(selector.requires("status.phase"), None);
    assert_eq!(selector.requires("metadata.name"), Some(r"a,b=c\"));
    let value_of = |field: &str| match field {
        "spec.nodeName" => "n1".to_owned(),
        "metadata.name" => r"a,b=c\".to_owned(),
        _ => String::new(),
    };
    assert!(selector.matches(value_of));
    assert!(!selector.matches(|_| "Failed".to_owned()));
    assert!(FieldSelector::parse("").unwrap().is_everything());
    for text in ["a", "a=b=c", r"a=\b"] {
        assert!(FieldSelector::parse(text).is_err(), "{text:?} must be refused");
    }
}

proptest! {
    #[test]
    fn printed_label_selectors_are_read_back(keys in prop::collection::vec("[a-z]{1,5}", 0..4),
        values in prop::collection::btree_set("[a-z0-9]{1,4}", 1..3), choice in 0..4_usize) {
        let values: Vec<String> = values.into_iter().collect();
        let text = keys.iter().map(|key| match choice {
            0 => format!("{key} in ({})", values.join(",")),
            1 => format!("{key}!={}", values[0]),
            2 => format!("!{key}"),
            _ => key.clone(),
        }).collect::<Vec<_>>().join(",");
        let selector = LabelSelector::parse(&text).unwrap();
        prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
    }

    #[test]
    fn printed_field_selectors_are_read_back(value in "[a-z,=\\\\]{0,8}") {
        let escaped = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        let selector = FieldSelector::parse(&format!("f!={escaped},g=1")).unwrap();
        prop_assert_eq!(&selector.requirements()[0].value, &value);
        prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
    }

    #[test]
    fn any_text_is_answered_without_panic(text in "\\PC{0,40}") {
        let _ = LabelSelector::parse(&text).is_ok();
        let _ = FieldSelector::parse(&text).is_ok();
    }
}
