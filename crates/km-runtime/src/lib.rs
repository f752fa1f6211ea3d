//! Container runtimes behind one trait: images, networks, volumes, cgroups, containers.
//!
//! [`oci::OciRuntime`] is the embedded one: it needs root and a Linux kernel with overlayfs and namespaces, and no
//! other program. Each container has a small supervising process of its own (see [`shim`]), so containers outlive the
//! process that holds the runtime.

pub mod builtin;
mod bundle;
mod cgroup;
mod contract;
pub mod crilog;
mod files;
pub mod images;
mod limits;
pub mod net;
pub mod oci;
mod preflight;
mod process;
mod purge;
pub mod reference;
pub mod relay;
pub mod shim;
mod spec;
mod user;

pub use contract::*;
pub use preflight::{Check, preflight};
pub use purge::purge;
