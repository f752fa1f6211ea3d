//! `km reconcile`: asks Mesos for the state of tasks.

use clap::Args;

use super::scheduler::Target;
use crate::exit::Failed;

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    target: Target,
    /// Ask for each task that the scheduler knows (the default).
    #[arg(long)]
    explicit: bool,
    /// Ask for all tasks that Mesos knows.
    #[arg(long, conflicts_with = "explicit")]
    implicit: bool,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let (path, what) = if flags.implicit {
        ("/debug/actions/requestImplicit", "implicit")
    } else {
        ("/debug/actions/requestExplicit", "explicit")
    };
    flags.target.ask(path).await?;
    println!("{what} reconciliation is under way");
    Ok(())
}
