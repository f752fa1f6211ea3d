//! Flags of `km controller-manager`, named as in Kubernetes and Kubernetes-Mesos.

use std::net::IpAddr;
use std::path::PathBuf;

/// Flags of the controller manager.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// Path to a kubeconfig file with authorization and location of the API server
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// The IP address to serve health and metrics on
    #[arg(long, default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// The port to serve health and metrics on; 0 takes a free one
    #[arg(long, default_value_t = 10252)]
    pub port: u16,
    /// Map service endpoints to the host ports of pods instead of their container ports. Must agree with the flag of
    /// the same name of the scheduler
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
          require_equals = true)]
    pub host_port_endpoints: bool,
}
