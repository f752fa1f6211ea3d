//! What single kinds do beside the generic steps.

pub mod namespaces;
pub mod pods;
pub mod secrets;
pub mod services;
pub mod storage;
