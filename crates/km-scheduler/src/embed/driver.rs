//! The driver: the way from the scheduler to Mesos.

use km_mesos_proto::v1;

/// Whatever a driver has to say about a failure.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// Calls to the Mesos master. They are made outside of the scheduler's lock, and may come from several threads at once.
/// An error means that the call had no effect; what became of a task otherwise shows in its status updates.
pub trait Driver: Send + Sync {
    /// Launch tasks from offers of one agent; what is left of the offers goes back.
    fn launch_tasks(&self, offers: Vec<v1::OfferId>, tasks: Vec<v1::TaskInfo>) -> Result<(), DriverError>;
    /// Kill a task.
    fn kill_task(&self, task: &v1::TaskId) -> Result<(), DriverError>;
    /// Give offers back.
    fn decline_offers(&self, offers: Vec<v1::OfferId>) -> Result<(), DriverError>;
}
