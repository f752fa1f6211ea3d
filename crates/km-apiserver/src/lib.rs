//! An embedded Kubernetes API server.
//!
//! One table of kinds ([`registry`]) and one generic handler per verb; what is special about a kind is a hook in its
//! row. Objects are JSON values; those that nobody has to look into stay the bytes that the store keeps.
//!
//! Not here (yet): server-side apply, custom resources, webhooks, answers in protobuf, service account tokens, exec,
//! attach and port-forward. Every client with a certificate of the cluster's authority may do everything.

mod allocate;
mod body;
mod bootstrap;
mod client_auth;
mod columns;
mod context;
mod discovery;
mod expiry;
mod failure;
mod flags;
mod hooks;
mod kubelet_client;
mod listener;
mod metrics;
mod negotiate;
mod openapi;
mod path;
pub mod pki;
mod plain;
mod protobuf;
mod query;
mod registry;
mod render;
mod server;
mod start;
mod subresources;
mod time;
mod verbs;

pub use flags::Flags;
pub use pki::Pki;
pub use start::start;
