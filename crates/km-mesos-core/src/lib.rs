//! The embedded Mesos master, allocator and agent as state machines. No IO.

pub mod agent;
pub mod allocator;
mod framework_info;
pub mod link;
pub mod master;
