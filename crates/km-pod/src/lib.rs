//! The life of a pod on a node as a state machine. No IO.
//!
//! [`PodMachine`] takes [`Event`]s (what the runtime, the API server, Mesos and the timer report) and answers with
//! [`Action`]s (what is to be done next). [`env`], [`service_links`], [`expand`] and [`downward`] are the pure rules by
//! which a container's environment, arguments and downward-API values come about; [`unsupported`] lists what a pod asks
//! for in vain.

mod allotment;
mod backoff;
mod conditions;
mod container;
mod containers;
pub mod downward;
pub mod env;
mod event;
pub mod expand;
mod machine;
mod phase;
mod plan;
mod probe;
mod resources;
pub mod service_links;
mod status;
mod stopping;
pub mod unsupported;
mod updating;

#[cfg(test)]
mod tests;

pub use allotment::Allotment;
pub use backoff::Backoff;
pub use conditions::PASSING as PASSING_CONDITIONS;
pub use event::{Action, Event, Exit, Hook, Level, Moment, Outcome, ProbeKind, StartFailure, StopCause, container_id};
pub use machine::PodMachine;
pub use plan::{PullPolicy, pod_ref};
pub use resources::{Allocatable, cpu_limit_milli, cpu_shares, memory_limit_bytes};
