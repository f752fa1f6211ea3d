//! Runs the cases of `data/resources.json`: what Apache Mesos does with resources, one case per line. The file's `meta`
//! explains operations and notation.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "resource_cases/notation.rs"]
mod notation;
#[path = "resource_cases/operations.rs"]
mod operations;

use serde_json::Value;

#[test]
fn resources_behave_as_those_of_mesos() {
    let file: Value = serde_json::from_str(include_str!("data/resources.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 249, "only {} cases found", cases.len());
    let failures: Vec<String> = cases.iter().filter_map(|case| operations::run(case).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
