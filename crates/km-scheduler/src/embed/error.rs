//! Why a call of the library didn't do what was asked.

use std::time::Duration;

use km_podtask::PodKey;

use super::DriverError;

/// Errors of [`super::Scheduler`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the machines can't be listed: {0}")]
    Machines(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("pod {0} is not known")]
    UnknownPod(PodKey),
    #[error("pod {0} has finished")]
    Finished(PodKey),
    #[error("pod {0} has no machine yet: call schedule first")]
    NotScheduled(PodKey),
    #[error("pod {0} was launched already; choose another name")]
    AlreadyLaunched(PodKey),
    #[error("the offer for pod {0} is gone: schedule it again")]
    OfferGone(PodKey),
    #[error("pod {0} does not run")]
    NotRunning(PodKey),
    /// Another call of `schedule` took over the same pod.
    #[error("pod {0} was scheduled anew by another call")]
    Superseded(PodKey),
    #[error("no offer fitted pod {pod} within {} ms", .waited.as_millis())]
    TimedOut { pod: PodKey, waited: Duration },
    #[error("pods can't be changed once they are launched: not implemented")]
    NotImplemented,
    #[error("there is no driver yet: call set_driver first")]
    NoDriver,
    #[error("the driver failed: {0}")]
    Driver(#[source] DriverError),
}
