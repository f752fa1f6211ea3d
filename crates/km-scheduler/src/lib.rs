//! The Kubernetes scheduler as a Mesos framework.

pub mod core;
