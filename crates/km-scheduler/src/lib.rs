//! The Kubernetes scheduler as a Mesos framework.
//!
//! [`core`] decides, without IO. The rest of the crate is its shell: [`start`] connects it with the API server, the
//! Mesos master and an HTTP port. [`embed`] is for programs that want to run pods on Mesos without an API server.

pub mod core;
pub mod embed;
mod flags;
mod shell;
pub mod wire;

pub use flags::{Flags, FlagsError};
pub use shell::start;
