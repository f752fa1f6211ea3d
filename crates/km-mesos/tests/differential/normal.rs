//! Makes recordings comparable: what differs from run to run gets a placeholder, numbered in order of appearance.

use std::collections::BTreeMap;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Fields whose value is a moment or a random number, wherever they stand.
const VOLATILE: [&str; 12] = [
    "estimated_drain_start_time_seconds",
    "timestamp",
    "registered_time",
    "reregistered_time",
    "unregistered_time",
    "start_time",
    "elected_time",
    "build_time",
    "pid",
    "port",
    "ip",
    "nanoseconds",
];

/// Fields that are sets: their order says nothing.
const SETS: [&str; 8] = [
    "resources",
    "total_resources",
    "allocated_resources",
    "offered_resources",
    "capabilities",
    "draining_machines",
    "down_machines",
    "statuses",
];

/// The placeholders of one script on one cluster.
pub struct Names {
    known: BTreeMap<String, String>,
    next: BTreeMap<&'static str, usize>,
    texts: Vec<(String, String)>,
    id: Regex,
    address: Regex,
}

impl Names {
    /// `folder` is replaced where it is part of a text.
    pub fn new(folder: String) -> Self {
        let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
        let id = Regex::new(&format!("{uuid}(-[OS]?[0-9]+)?")).expect("a valid pattern");
        let address = Regex::new(r"127\.0\.0\.1:[0-9]+").expect("a valid pattern");
        Self {
            known: BTreeMap::new(),
            next: BTreeMap::new(),
            texts: vec![(folder, "<folder>".to_owned())],
            id,
            address,
        }
    }

    /// Names a value in advance, so that the order of its appearance doesn't matter.
    pub fn set(&mut self, value: &str, name: &str) {
        self.known.insert(value.to_owned(), name.to_owned());
    }

    /// Replaces this wherever it is part of a text.
    pub fn set_text(&mut self, text: &str, name: &str) {
        self.texts.push((text.to_owned(), name.to_owned()));
    }

    /// The value with placeholders.
    pub fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => Value::Object(self.fields(fields)),
            // 1.0 and 1 are the same number.
            Value::Number(number) => match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
                _ => value.clone(),
            },
            other => other.clone(),
        }
    }

    /// The text with placeholders for the ids, addresses and paths in it.
    pub fn text(&mut self, text: &str) -> String {
        // What follows is a list in no certain order, or a message in protobuf's debug form.
        let end = [
            "is more than available",
            "are more than available",
            "with same ExecutorID.",
            "There are overlapping resources in the task",
            "query parameter in the request body:",
            "Failed to parse update weights request JSON",
            "Failed to convert weights JSON array to protobuf",
        ];
        let end = end.iter().find_map(|known| text.find(known).map(|start| start + known.len()));
        let text = end.and_then(|end| text.get(..end)).unwrap_or(text);
        let sorted = text.split_once(" does not contain ").map(|(whole, part)| {
            let mut parts: Vec<&str> = whole.split("; ").collect();
            parts.sort_unstable();
            format!("{} does not contain {part}", parts.join("; "))
        });
        let text = sorted.as_deref().unwrap_or(text);
        let plain = |text: String, (from, to): &(String, String)| text.replace(from, to);
        let text = self.texts.iter().fold(text.to_owned(), plain);
        let text = self.address.replace_all(&text, "<address>").into_owned();
        let id = self.id.clone();
        id.replace_all(&text, |found: &Captures<'_>| {
            let kind = match found.get(1).map(|suffix| suffix.as_str()) {
                None => "uuid",
                Some(suffix) if suffix.starts_with("-O") => "offer",
                Some(suffix) if suffix.starts_with("-S") => "agent",
                Some(_) => "framework",
            };
            self.name(kind, &found[0])
        })
        .into_owned()
    }

    fn fields(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut named = Map::new();
        for (field, value) in fields {
            // Only some containerizers tell it.
            if field == "executor_pid" {
                continue;
            }
            let value = match value {
                Value::Number(_) | Value::String(_) if VOLATILE.contains(&field.as_str()) => {
                    Value::String(format!("<{field}>"))
                }
                Value::String(bytes) if field == "uuid" => Value::String(self.name("uuid", bytes)),
                // That of an operation's status is a message of its own.
                Value::Object(uuid) if field == "uuid" => {
                    Value::String(self.name("uuid", uuid["value"].as_str().unwrap_or_default()))
                }
                Value::Array(items) if SETS.contains(&field.as_str()) => {
                    // The embedded agent has no resource providers, so it does not say that it can have some.
                    let shared =
                        items.iter().filter(|item| *item != "RESOURCE_PROVIDER" && item["type"] != "RESOURCE_PROVIDER");
                    let mut items: Vec<Value> = shared.map(|item| self.value(item)).collect();
                    items.sort_by_key(Value::to_string);
                    Value::Array(items)
                }
                other => self.value(other),
            };
            named.insert(self.text(field), value);
        }
        named
    }

    fn name(&mut self, kind: &'static str, value: &str) -> String {
        if let Some(name) = self.known.get(value) {
            return name.clone();
        }
        let number = self.next.entry(kind).or_default();
        *number += 1;
        let name = format!("<{kind} {number}>");
        self.known.insert(value.to_owned(), name.clone());
        name
    }
}
