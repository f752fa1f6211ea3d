//! Placement of waiting pods on offers: filters, preferences, packing, preemption. No IO.
//!
//! An [`Engine`] is told of nodes, of what they offer, and of the pods on them, and decides one pod after the other
//! where it goes, or why it can't go anywhere. The same calls give the same decisions. Rules follow the Kubernetes
//! scheduler; what a node has is what Mesos offers of it.

mod budget;
mod census;
mod class;
pub mod constraint;
mod contest;
mod engine;
mod explain;
mod fit;
mod hash;
mod log;
mod need;
mod node;
mod nodes;
mod nominees;
mod place;
mod plan;
mod ports;
mod preempt;
mod reasons;
mod rules;
mod slab;
mod strategy;
mod tally;
mod topology;
mod volumes;

pub use budget::Budget;
pub use constraint::{Attribute, Placed};
pub use engine::{AssignedPod, Engine};
pub use explain::Explanation;
pub use need::{Context, HostPort, Mates, Need, NeedError, PortNeed, compile, host_ports, running_requests};
pub use node::{ExecutorNeed, NodeFacts, Pool, Share, Supply};
pub use place::PendingPod;
pub use plan::{Placement, Plan};
pub use ports::{PortSet, Ports};
pub use preempt::Preemption;
pub use reasons::{Nearest, Refusal, Summary};
pub use strategy::{
    Candidate, Chooser, Contest, FirstFit, FitScoring, Kubernetes, Pack, Policy, ResourceWeight, Scores, Shape, Spread,
    Strategy,
};
pub use volumes::{Binding, Way};

/// What pods need and nodes have: milli-CPUs, bytes, and whole units of everything else.
pub use km_kube::pod::ResourceTotals as Amounts;
