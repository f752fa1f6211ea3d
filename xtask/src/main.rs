//! Build and test helpers. `cargo xtask --help` lists them.

mod bench;
mod fuzz;
mod machine;
mod named_tests;
mod original_map;
mod peers;
mod shell;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build and test helpers of km")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the tests need and run them all.
    Test(test::Flags),
    /// Check the rules of the house: floors, cores without IO, dependencies with a reason, links.
    Tidy,
    /// Install real peers (Apache Mesos, kubectl) below `.peers`.
    Peers,
    /// Run simulated clusters from many seeds, and say how to repeat one that broke an invariant.
    Sim(sim::Flags),
    /// Look for input that breaks a rule of a reader, by coverage; needs `cargo install cargo-fuzz`.
    Fuzz(fuzz::Flags),
    /// Measure, beside a peer or a limit in the same run.
    Bench(bench::Flags),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(flags) => test::run(&flags),
        Command::Tidy => tidy::run(),
        Command::Peers => peers::install_all(),
        Command::Sim(flags) => sim::run(&flags),
        Command::Fuzz(flags) => fuzz::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
