//! Placement of pending pods on offers: filters, scores, packing. No IO.
//!
//! [`place`] takes a [`Snapshot`] of the agents with what they offer and the pods that wait, and says where each pod
//! goes or why it can't go anywhere. It is a pure function: the same input gives the same plan. Rules follow the
//! Kubernetes scheduler's filters (node name, cordon, taints, selector and affinity, host ports, resources); what a
//! node has is what Mesos offers of it.

mod affinity;
mod class;
mod fit;
mod pending;
mod place;
mod plan;
mod ports;
mod reasons;
mod score;
mod snapshot;
mod taints;

pub use pending::{HostPort, PendingPod, PortNeed, host_ports};
pub use place::place;
pub use plan::{Placement, Plan, Refused};
pub use ports::{PortSet, Ports};
pub use reasons::{Nearest, Refusal, Summary};
pub use score::{Policy, Strategy};
pub use snapshot::{ExecutorNeed, NodeView, Pool, Share, Snapshot};

/// What pods need and nodes have: milli-CPUs, bytes, and whole units of everything else.
pub use km_kube::pod::ResourceTotals as Amounts;
