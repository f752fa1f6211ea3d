//! `km tasks`: the Mesos tasks of pods, as the scheduler has them.

use super::scheduler::{Question, cell, print_table};
use crate::exit::Failed;

pub async fn run(question: Question) -> Result<(), Failed> {
    let Some(document) = question.ask("/debug/inspect/tasks").await? else { return Ok(()) };
    let rows = document["tasks"].as_array().into_iter().flatten().map(|task| {
        let state = match cell(task, "state").as_str() {
            "running" | "pending" if task["unreachable"] == true => "unreachable".to_owned(),
            state => state.to_owned(),
        };
        vec![cell(task, "pod"), state, cell(task, "hostname"), cell(task, "id"), cell(task, "agent")]
    });
    print_table(&["POD", "STATE", "HOST", "TASK", "AGENT"], &rows.collect::<Vec<_>>());
    Ok(())
}
