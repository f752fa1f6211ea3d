//! `km minion`: what a Mesos agent starts as our executor. It supervises `km executor` and `km proxy`, both from the
//! same binary, and keeps their logs in the sandbox.
//!
//! The executor's end is the minion's end, with the same exit code, so that Mesos takes the resources back. A proxy
//! that ends is started again. When the minion is stopped, its children get SIGTERM, and SIGKILL 5 s later.

mod child;
mod flags;
mod log_file;
mod run;
mod supervisor;

pub use flags::Flags;
pub use run::run;
