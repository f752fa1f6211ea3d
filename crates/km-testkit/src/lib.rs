//! What end-to-end tests share: waiting on conditions, a local cluster, kubectl, and what a cluster may leave behind.

mod cluster;
mod eventually;
mod kubectl;
mod leftovers;
mod ports;
mod process;
mod zookeeper;

pub use cluster::{LocalCluster, Options};
pub use eventually::{eventually, eventually_within};
pub use kubectl::Kubectl;
pub use leftovers::leftovers;
pub use ports::{free_port, free_ports};
pub use process::Process;
pub use zookeeper::ZooKeeper;
