//! The HTTP shell of the embedded Mesos master and agents.

pub mod agent;
pub mod master;
mod wire;
