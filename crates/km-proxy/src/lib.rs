//! Services: what is sent to a service's address reaches one of its endpoints. By nftables, or by a process in user
//! space where there is none.
//!
//! [`rules`] decides from Services and EndpointSlices what leads where; the rest carries it out. One proxy programs a
//! network namespace: others on the same host stand by and take over when it ends.

mod flags;
mod lock;
mod nft;
pub mod rules;
mod shell;
mod userspace;

pub use flags::{Flags, Mode};
pub use shell::start;
