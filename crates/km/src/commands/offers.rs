//! `km offers`: the offers that the scheduler holds, those that it declined, and whether it wants any.

use serde_json::Value;

use super::scheduler::{Question, ago, cell, print_asked, print_table};
use crate::exit::Failed;

pub async fn run(question: Question) -> Result<(), Failed> {
    let Some(document) = question.ask("/debug/inspect/offers").await? else { return Ok(()) };
    let lines = |field: &str| document[field].as_array().cloned().unwrap_or_default();
    let held = |offer: &Value| {
        let all = [cell(offer, "hostname"), "held".to_owned(), ago(offer, "age_ms"), String::new()];
        all.into_iter().chain([cell(offer, "resources"), cell(offer, "id")]).collect::<Vec<_>>()
    };
    let declined = |offer: &Value| {
        let again = format!("{}, again in {}", cell(offer, "reason"), ago(offer, "again_ms"));
        let all = [cell(offer, "hostname"), "declined".to_owned(), ago(offer, "age_ms"), again];
        all.into_iter().chain([String::new(), cell(offer, "id")]).collect::<Vec<_>>()
    };
    let rows = lines("held").iter().map(held).chain(lines("declined").iter().map(declined)).collect::<Vec<_>>();
    print_table(&["HOST", "STATE", "AGE", "WHY", "RESOURCES", "OFFER"], &rows);
    let asked = &document["asked"];
    print_asked(asked);
    if asked["suppressed"] == true {
        println!("\nNothing waits, so the scheduler asked Mesos for no more offers (suppressed).");
    } else if !asked["revived_ms"].is_null() {
        println!("\nThe scheduler last asked for offers {} ago.", ago(asked, "revived_ms"));
    }
    Ok(())
}
