//! Log lines on stderr.

use tracing_subscriber::{EnvFilter, fmt};

/// Sets up logging for the process: `KM_LOG` (an env-filter such as `info,km_scheduler=debug`) wins over `default`.
/// A second call changes nothing.
pub fn init_logging(default: &str) {
    let filter = EnvFilter::try_from_env("KM_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let _already_set = fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true).try_init();
}
