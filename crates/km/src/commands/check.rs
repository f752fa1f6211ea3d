//! `km check`: can this machine run containers?

use clap::Args;

use crate::exit::{Exit, Failed};

#[derive(Args, Debug)]
pub struct Flags {}

pub fn run(_flags: &Flags) -> Result<(), Failed> {
    let mut fatal = None;
    for check in km_runtime::preflight() {
        match (&check.problem, check.fatal) {
            (None, _) => println!("✓ {}", check.name),
            (Some(problem), is_fatal) => {
                println!("{} {}: {problem}", if is_fatal { "✗" } else { "!" }, check.name);
                println!("  → {}", check.way_out);
                if is_fatal {
                    fatal = fatal.or(Some(check.name));
                }
            }
        }
    }
    match fatal {
        None => Ok(()),
        Some(name) => {
            Err(Failed::new(Exit::MachineUnfit, anyhow::anyhow!("this machine cannot run containers: {name}")))
        }
    }
}
