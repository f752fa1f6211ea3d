//! The executor against a fake agent, a fake API server and a fake runtime.

pub mod agent;
pub mod api;
mod journal;
mod kubelet;
mod launch;
mod node;
mod runtime;
mod static_pods;
mod world;
