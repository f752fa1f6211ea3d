//! Tests of the agent: one file per concern, all on a bench that plays master, executors and disk.

mod bench;
mod built_in;
mod drain;
mod executors;
mod master;
mod no_update_is_lost;
mod recovery;
mod updates;
