//! Pod and task: states, transitions, port mapping, procurement, task info, recovery. No IO.
//!
//! Each pod becomes one Mesos task. This crate knows how: which of an offer's resources the task takes ([`procure`]),
//! which host ports its containers get ([`map_ports`]), what the executor is sent ([`payload`]), what the executor is
//! ([`executor`]) and which pods it runs by itself ([`static_pods`]), what both sides say to each other ([`messages`]),
//! and through which states the task goes ([`Registry`]).

mod discovery;
pub mod executor;
mod fixed;
mod identity;
pub mod limits;
pub mod messages;
pub mod payload;
mod ports;
mod procurement;
mod recovery;
mod registry;
mod resource_names;
pub mod roles;
pub mod static_pods;
mod task;
mod taskinfo;

pub use discovery::discovery_info;
pub use fixed::{memory_counted, memory_from_mesos, memory_to_mesos, thousandths};
pub use identity::{TaskName, task_name};
pub use ports::{OfferedPorts, PortEntry, PortError, PortStrategy, map_ports, offered_ports, strategy_of};
pub use procurement::{Procured, ProcurementError, Want, new_ranges, procure, take, without_port};
pub use recovery::{Recovered, RecoveryError, recover};
pub use registry::{FINISHED_HISTORY, Registry, RegistryError, Transition};
pub use resource_names::{NamesError, ResourceNames};
pub use task::{Flags, PodKey, State, Task};
pub use taskinfo::{TaskParts, task_info};
