//! Kubernetes as a framework of Apache Mesos, in one binary.
//!
//! `km up` starts a whole cluster; every other role is a command of its own. This file only tells the container shim
//! (which must run before any thread exists) from the rest.

mod cli;
mod cluster;
mod commands;
mod exit;
mod memory;
mod progress;
mod role;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    if arguments.get(1).is_some_and(|word| word == "shim") {
        let words: Vec<String> = arguments[2..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
        return ExitCode::from(u8::try_from(km_runtime::shim::main(&words)).unwrap_or(1));
    }
    memory::use_small_pages();
    cli::run(arguments)
}
