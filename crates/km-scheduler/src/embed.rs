//! Pods on Mesos from inside another program, without an API server.
//!
//! A program links this, hands it a [`Policy`] (or takes [`fcfs`]) and a [`Driver`] (or takes [`MesosDriver`]), and then:
//!
//! 1. [`Scheduler::schedule`] waits until some offer fits the pod, and says on which machine it is;
//! 2. [`Scheduler::create_pod`] launches it there, as one Mesos task;
//! 3. [`Scheduler::get_pod`] and [`Scheduler::list_pods`] show it, [`Scheduler::delete_pod`] kills it.
//!
//! What Mesos says goes in by the callbacks ([`Scheduler::resource_offers`], [`Scheduler::status_update`] and so on);
//! [`MesosDriver`] calls them. All of it may happen on many threads at once. Nothing is durable: tasks that outlive the
//! program are Mesos' own.
//!
//! This is the interface of the first Kubernetes-Mesos (August 2014) with its names. [`State`] decides, without IO;
//! [`Scheduler`] is the lock, the clock and the waiting around it. `examples/embedded` is a whole program.

mod driver;
mod error;
mod mesos;
mod podtask;
mod policy;
mod scheduler;
mod state;

pub use driver::{Driver, DriverError};
pub use error::Error;
pub use km_podtask::{PodKey, new_ranges};
pub use mesos::{Connection, MesosDriver};
pub use podtask::{CPUS_PER_POD, FillError, MEMORY_PER_POD, PodTask, SelectedMachine, TASK_NAME};
pub use policy::{Policy, Slave, Slaves, fcfs};
pub use scheduler::Scheduler;
pub use state::{Action, Event, State};
