//! The HTTP shell of the embedded Mesos master and agents.
pub mod agent;
mod wire;
