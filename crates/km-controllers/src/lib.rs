//! The controller manager: replica sets, replication controllers, deployments, host-port endpoints, namespace
//! deletion, garbage collection, persistent volumes, and what every namespace has from birth.
//!
//! Each controller is a pure function in a folder of its own: from what the watches showed to a list of actions.
//! [`core::Manager`] holds the caches and the work queue and asks the controllers; it does no IO either. The shell
//! feeds it with watch events and carries its actions out.

mod accounts;
pub mod core;
mod deployment;
mod endpoints;
mod flags;
mod garbage;
mod namespaces;
mod replicas;
mod shell;
mod storage;

pub use flags::Flags;
pub use shell::start;
