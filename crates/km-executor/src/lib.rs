//! A Mesos executor with a kubelet inside.
//!
//! It takes tasks from its agent, binds their pods to its Node, runs them, and tells Kubernetes and Mesos how they
//! fare. The rules are in cores without IO: [`tasks`] (which task runs which pod) and the crate `km-pod` (the life of
//! one pod). Only pods that came as tasks are run; a pod that is merely bound to this node in the API server is not.
//!
//! Not done here: rotation of container logs, exec, attach and port-forward.

mod agent;
pub mod api;
mod binding;
mod clock;
mod credentials;
mod dns;
mod events;
mod executor;
mod flags;
mod kube_api;
mod kubelet;
mod metrics;
mod network;
mod node;
mod pod;
mod retry;
mod start;
mod static_pods;
mod table;
pub mod tasks;
#[cfg(test)]
mod tests;
mod volumes;

pub use binding::BindFailure;
pub use flags::{Flags, RuntimeKind};
use km_podtask::messages;
pub use start::start;
