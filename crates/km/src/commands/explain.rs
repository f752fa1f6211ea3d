//! `km explain pod`: why a pod waits, agent by agent, and what the scheduler asked Mesos for.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::scheduler::{Question, ago, cell, print_asked, print_table};
use crate::exit::{Exit, Failed};

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Why a pod waits, or where it runs.
    Pod(Pod),
}

#[derive(Args, Debug)]
pub struct Pod {
    /// `NAMESPACE/NAME`, or a name in the namespace `default`.
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pod: String,
    #[command(flatten)]
    question: Question,
}

pub async fn run(command: Command) -> Result<(), Failed> {
    let Command::Pod(flags) = command;
    let (namespace, name) = flags.pod.split_once('/').unwrap_or(("default", &flags.pod));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        let error = anyhow!("{:?} is no pod: expected NAMESPACE/NAME", flags.pod);
        return Err(Failed::new(Exit::Usage, error));
    }
    if let Some(document) = flags.question.ask(&format!("/debug/explain?pod={namespace}/{name}")).await? {
        print_text(&document);
    }
    Ok(())
}

fn print_text(document: &Value) {
    println!("{}: {}", cell(document, "pod"), cell(document, "state"));
    let message = cell(document, "message");
    if !message.is_empty() {
        println!("{message}");
    }
    let agents = document["agents"].as_array().cloned().unwrap_or_default();
    if !agents.is_empty() {
        println!();
        let row = |agent: &Value| vec![cell(agent, "host"), cell(agent, "why"), cell(agent, "lacking")];
        print_table(&["HOST", "WHY", "LACKS"], &agents.iter().map(row).collect::<Vec<_>>());
    }
    let asked = &document["asked"];
    if asked.is_object() {
        println!();
        println!("waits for       {}", ago(asked, "waits_ms"));
        println!("offers held     {}", cell(asked, "held"));
        let revived = ago(asked, "revived_ms");
        println!(
            "offers asked    {}",
            if revived.is_empty() { "not yet".to_owned() } else { format!("{revived} ago") }
        );
        let next = ago(asked, "retry_ms");
        if !next.is_empty() {
            println!("asks again in   {next}");
        }
        print_asked(asked);
    }
}
