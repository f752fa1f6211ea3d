//! Real containers: these tests need root, overlayfs, control groups and nft on the machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod adoption;
mod containers;
mod limits;
mod network;
mod support;
