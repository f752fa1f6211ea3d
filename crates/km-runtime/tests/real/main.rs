//! Real containers: these tests need root, overlayfs, control groups and nft on the machine.

mod adoption;
mod containers;
mod limits;
mod network;
mod support;
