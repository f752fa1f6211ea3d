//! The offer pool: every offer ends exactly once. No IO.
//!
//! Mesos offers are promises with a short life. The pool keeps those that came, lends them to placement (acquire and
//! release), and sees to it that each ends in exactly one way: accepted, declined, rescinded, or lost with the
//! connection or its agent. An ended offer lingers as a bare id for a while, so that a late message about it is told
//! apart from one about an offer that never was.

mod event;
mod listener;
mod pool;

pub use event::{Action, DeclineReason, End, Event};
pub use listener::Filter;
pub use pool::{Held, Pool, Settings};
