//! Logs, metrics, health and build information, the same for every role of the binary.

mod admin;
mod logging;
mod started;

pub use admin::{Admin, Check};
pub use logging::init_logging;
pub use started::Started;

/// The Kubernetes version whose API this build speaks.
pub const KUBERNETES_VERSION: &str = "v1.37.1";
/// This build's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
