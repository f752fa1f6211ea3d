//! Events, in either spelling.

use serde_json::Value;

use super::{Column, at, count, name, number, text, wide};
use crate::time;

pub const COLUMNS: &[Column] = &[
    text("Last Seen"),
    text("Type"),
    text("Reason"),
    text("Object"),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    wide("First Seen"),
    Column { priority: 1, ..number("Count") },
    wide("Name"),
];

pub fn cells(object: &Value) -> Vec<Value> {
    let either = |core: &str, new: &str| {
        let text = at(object, core);
        if text.is_empty() { at(object, new) } else { text }.to_owned()
    };
    let regarding = if object.get("involvedObject").is_some() { "/involvedObject" } else { "/regarding" };
    let of_object = |field: &str| at(object, &format!("{regarding}/{field}")).to_owned();
    let target = match of_object("name").as_str() {
        "" => of_object("kind").to_lowercase(),
        name => format!("{}/{name}", of_object("kind").to_lowercase()),
    };
    let since = |times: &[&str]| {
        let found = times.iter().map(|pointer| at(object, pointer)).find(|text| !text.is_empty());
        time::age(found)
    };
    let component = either("/source/component", "/deprecatedSource/component");
    let component =
        if component.is_empty() { either("/reportingComponent", "/reportingController") } else { component };
    let host = either("/source/host", "/deprecatedSource/host");
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    let counted = count(object, "/series/count").max(count(object, "/count")).max(count(object, "/deprecatedCount"));
    vec![
        since(&["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp", "/eventTime"]).into(),
        at(object, "/type").into(),
        at(object, "/reason").into(),
        target.into(),
        of_object("fieldPath").into(),
        source.into(),
        either("/message", "/note").trim().into(),
        since(&["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]).into(),
        counted.max(1).into(),
        name(object),
    ]
}
