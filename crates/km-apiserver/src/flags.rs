//! The role's flags, named as upstream's.

use std::{net::IpAddr, path::PathBuf};

/// Flags of `km apiserver`.
#[derive(clap::Args, Clone, Debug)]
pub struct Flags {
    /// Directory of the objects, the certificates (`pki/`) and `admin.kubeconfig`. One process at a time.
    #[arg(long, default_value = "/var/lib/km/apiserver")]
    pub data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, visible_alias = "address", default_value = "0.0.0.0")]
    pub bind_address: IpAddr,
    /// Port to serve HTTPS on; 0 takes a free one.
    #[arg(long, default_value_t = 6443)]
    pub secure_port: u16,
    /// Address at which members of the cluster reach this server, also the endpoint of service default/kubernetes.
    /// Default: the bind address, or else the address of the interface with the default route.
    #[arg(long)]
    pub advertise_address: Option<IpAddr>,
    /// Range of the cluster IPs of services.
    #[arg(long, default_value = "10.96.0.0/16")]
    pub service_cluster_ip_range: String,
    /// Range of the node ports of services.
    #[arg(long, default_value = "30000-32767")]
    pub service_node_port_range: String,
    /// More names or addresses for the serving certificate. May be repeated.
    #[arg(long)]
    pub tls_san: Vec<String>,
    /// How long events are kept, in seconds.
    #[arg(long, default_value_t = 3600)]
    pub event_ttl: u64,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            data_dir: "/var/lib/km/apiserver".into(),
            bind_address: IpAddr::from([0, 0, 0, 0]),
            secure_port: 6443,
            advertise_address: None,
            service_cluster_ip_range: "10.96.0.0/16".to_owned(),
            service_node_port_range: "30000-32767".to_owned(),
            tls_san: Vec::new(),
            event_ttl: 3600,
        }
    }
}
