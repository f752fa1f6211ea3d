//! `km check`: can this machine run containers?

use clap::Args;

use crate::exit::{Exit, Failed};

#[derive(Args, Debug)]
pub struct Flags {}

pub async fn run(_flags: &Flags) -> Result<(), Failed> {
    let mut missing = None;
    for check in km_runtime::preflight().await {
        match &check.result {
            Ok(()) => println!("✓ {}", check.name),
            Err(problem) => {
                println!("{} {}: {problem}", if check.required { "✗" } else { "!" }, check.name);
                if check.required {
                    missing = missing.or(Some(check.name));
                }
            }
        }
    }
    match missing {
        None => Ok(()),
        Some(name) => {
            Err(Failed::new(Exit::MachineUnfit, anyhow::anyhow!("this machine cannot run containers: {name}")))
        }
    }
}
