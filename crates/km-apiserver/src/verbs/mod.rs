//! What can be done with any kind.

pub mod create;
pub mod delete;
pub mod get;
pub mod list;
pub mod modify;
pub mod patch;
pub mod selection;
pub mod update;
pub mod watch;
pub mod write;
