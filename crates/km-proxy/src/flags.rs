//! Flags of `km proxy`, named as those of kube-proxy.

use std::{net::IpAddr, path::PathBuf};

#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// Path to a kubeconfig file with authorization and location of the API server
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// The name of this proxy's Node, when it is not the host's name
    #[arg(long, default_value = "")]
    pub hostname_override: String,
    /// The IP address to serve health and metrics on
    #[arg(long, default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// The port to serve health and metrics on; a free one where it is taken, as with several agents on a host
    #[arg(long, default_value_t = 10256)]
    pub healthz_port: u16,
    /// How packets are led to endpoints: with nftables, by this process, or the better one that works here
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    pub proxy_mode: Mode,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Auto,
    Nftables,
    Userspace,
}
