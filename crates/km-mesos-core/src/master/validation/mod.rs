//! What the master refuses, with the texts of Apache Mesos: clients branch on some and people search for all.
//!
//! Pure functions: `Ok(())`, or the reason as it goes into an ERROR event, a status or an HTTP body.

pub mod call;
pub(super) mod check;
pub(super) mod container;
pub(super) mod executor;
pub(super) mod framework;
pub(super) mod group;
pub(super) mod operation;
pub(super) mod resource;
pub mod role;
pub(super) mod task;

/// Task, executor and framework ids end up in paths: not empty, at most 255 bytes, no separators, no control
/// characters.
pub(super) fn id(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("ID must not be empty".to_owned());
    }
    if value.len() > 255 {
        return Err("ID must not be greater than 255 characters".to_owned());
    }
    if value == "." || value == ".." {
        return Err(format!("'{value}' is disallowed"));
    }
    if value.chars().any(|letter| letter.is_control() || letter == '/' || letter == '\\') {
        return Err(format!("'{value}' contains invalid characters"));
    }
    Ok(())
}

/// A condition that must hold, else the text is the reason.
pub(super) fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}
