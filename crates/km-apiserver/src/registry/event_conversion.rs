//! `events.k8s.io/v1` and core/v1 events are two spellings of the same objects; they are stored in the core one.

use serde_json::{Map, Value};

use super::Conversion;

pub const EVENTS: Conversion = Conversion { to_stored: to_core, from_stored: from_core };

/// (core, events.k8s.io)
const NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
];
const COUNT: (&str, &str) = ("count", "deprecatedCount");

fn to_core(event: Value) -> Value {
    renamed(event, "v1", |name| NAMES.iter().chain([&COUNT]).find(|(_, new)| *new == name).map(|(core, _)| *core))
}

fn from_core(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", |name| {
        // The reporting instance has the same name in both.
        NAMES.iter().chain([&COUNT]).find(|(core, _)| *core == name).map(|(_, new)| *new)
    })
}

fn renamed(event: Value, api_version: &str, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = event else { return event };
    let mut out: Map<String, Value> = fields
        .into_iter()
        .map(|(name, value)| match other(&name) {
            Some(other) => (other.to_owned(), value),
            None => (name, value),
        })
        .collect();
    out.insert("apiVersion".to_owned(), api_version.into());
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_carry_the_same() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n", "regarding": {"name": "p"},
            "reportingController": "c", "reportingInstance": "i", "deprecatedCount": 2, "type": "Normal",
        });
        let core = to_core(new.clone());
        assert_eq!(core["message"], "n");
        assert_eq!(core["involvedObject"]["name"], "p");
        assert_eq!(core["apiVersion"], "v1");
        assert_eq!(from_core(core), new);
    }
}
