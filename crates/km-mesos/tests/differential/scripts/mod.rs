//! What is played, by subject.

pub mod accept;
pub mod auth;
pub mod constraints;
pub mod drain;
pub mod events;
pub mod executors;
pub mod failover;
pub mod feedback;
pub mod flags;
pub mod launch;
pub mod lost;
pub mod maintenance;
pub mod masters;
pub mod offers;
pub mod operations;
pub mod quota;
pub mod reads;
pub mod recovery;
pub mod reservations;
pub mod restarts;
pub mod shares;
pub mod subscribe;
pub mod tasks;
pub mod update_framework;
pub mod volumes;
pub mod writes;
