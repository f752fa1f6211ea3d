//! `km tasks`: the Mesos tasks of pods, as the scheduler has them.

use clap::Args;

use super::{
    Output,
    scheduler::{Target, cell, print_table},
};
use crate::exit::Failed;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    target: Target,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let document = flags.target.get("/debug/inspect/tasks").await?;
    if flags.output.print(&document)? {
        return Ok(());
    }
    let rows = document["tasks"].as_array().into_iter().flatten().map(|task| {
        let state = match (task["state"].as_u64(), task["unreachable"].as_bool()) {
            (Some(2), _) => "finished",
            (_, Some(true)) => "unreachable",
            (Some(1), _) => "running",
            _ => "pending",
        };
        vec![cell(task, "pod"), state.to_owned(), cell(task, "hostname"), cell(task, "id"), cell(task, "agent")]
    });
    print_table(&["POD", "STATE", "HOST", "TASK", "AGENT"], &rows.collect::<Vec<_>>());
    Ok(())
}
