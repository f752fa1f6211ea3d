//! Container runtimes behind one trait: images, networks, volumes, cgroups, containers.

mod contract;

pub use contract::*;
