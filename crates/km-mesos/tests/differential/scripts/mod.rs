//! What is played, by subject.

pub mod accept;
pub mod constraints;
pub mod failover;
pub mod offers;
pub mod subscribe;
pub mod update_framework;
