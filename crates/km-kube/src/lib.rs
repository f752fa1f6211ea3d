//! Kubernetes objects without IO: schema, defaults, validation, selectors, quantities, patches, keys.
//!
//! Objects are `serde_json::Value` where any served kind may come (schema, patch, defaults, validation) and typed on
//! `k8s_openapi` where only pods are meant (`pod`). Nothing here reads a clock, a file or a socket.

pub mod defaults;
pub mod keys;
pub mod names;
pub mod patch;
pub mod pod;
pub mod quantity;
pub mod schema;
pub mod selector;
pub mod storage;
pub mod validation;
