//! The process that supervises one container: it mounts the container's file system, starts it, copies its output
//! into the log, waits for its end and writes down how it ended.
//!
//! It is a process of its own, with its own session, because containers must outlive the kubelet, because the mounts
//! then vanish with it (its mount namespace is private), and because libcontainer changes the process that calls it.
//! It must run in a single thread until the container is started: call [`main`] before any async runtime.

mod executor;
mod logs;
mod mounts;
mod rootfs;
mod run;

use std::path::Path;

use crate::bundle::Bundle;

/// `args` are those after the name of the hidden command: the folder of the container. Returns the exit code of the
/// process: 0 when the container was supervised to its end, however it ended.
pub fn main(args: &[String]) -> i32 {
    match args {
        [bundle] => run::run(&Bundle(Path::new(bundle).to_owned())),
        _ => {
            eprintln!("usage: shim BUNDLE");
            64
        }
    }
}
