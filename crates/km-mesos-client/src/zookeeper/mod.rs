//! Finding the leading master by ZooKeeper: `zk://host:port,host:port/path`, the form that Mesos itself takes.

mod detection;
mod detector;
mod ensemble;
mod master_info;

pub(crate) use detection::Detection;
pub use detector::Sighting;
pub use ensemble::Ensemble;
