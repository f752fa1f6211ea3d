//! The Kubernetes scheduler as a Mesos framework.
//!
//! [`core`] decides on pods and [`election`] on who leads, both without IO. The rest of the crate is their shell:
//! [`start`] connects them with the API server, the Mesos master and an HTTP port. [`embed`] is for programs that want to
//! run pods on Mesos without an API server.

pub mod core;
pub mod election;
pub mod embed;
mod flags;
mod shell;
pub mod wire;

pub use flags::{ExecutorFlags, Flags, FlagsError, GivenFlags, RETIRED, RetiredFlags, Tuning};
pub use shell::start;
