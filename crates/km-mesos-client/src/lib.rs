//! Clients of the Mesos v1 scheduler, executor and operator APIs, and master detection.
//!
//! Every call has a deadline and is repeated with exponential back-off and full jitter, but only when it can't have
//! had an effect yet or when a second one does no harm. Decisions (redirects, back-off, environment, what is
//! unacknowledged) are pure and stand in modules of their own.

pub mod address;
pub mod backoff;
pub mod duration;
mod encoding;
pub mod environment;
mod error;
pub mod executor;
mod http;
mod masters;
pub mod operator;
mod redirect;
mod repeat;
pub mod scheduler;
mod stream;
pub mod tls;
pub mod unacknowledged;
mod zookeeper;

pub use address::{Authority, MasterAddress};
pub use encoding::Encoding;
pub use environment::Environment;
pub use error::ClientError;
pub use executor::ExecutorClient;
pub use http::Credentials;
pub use masters::Masters;
pub use operator::OperatorClient;
pub use scheduler::SchedulerClient;
pub use stream::EventStream;
pub use tls::Tls;
pub use unacknowledged::Unacknowledged;
pub use zookeeper::{Ensemble, Sighting};
