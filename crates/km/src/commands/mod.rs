//! One file a command.

pub mod check;
pub mod down;
pub mod drain_executors;
pub mod explain;
pub mod image;
pub mod kubeconfig;
pub mod offers;
pub mod reconcile;
pub mod reset;
pub mod scheduler;
pub mod status;
pub mod tasks;
pub mod up;
pub mod version;

use std::path::PathBuf;

use clap::Args;

use crate::cluster::Layout;

/// Which cluster: the flag that all commands about a local cluster share.
#[derive(Args, Clone, Debug)]
pub struct DataDir {
    /// Where the cluster keeps its objects, images and containers [default: /var/lib/km as root, else
    /// $XDG_STATE_HOME/km].
    #[arg(long, value_name = "DIR", env = "KM_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

impl DataDir {
    pub fn layout(&self) -> Layout {
        Layout::new(self.data_dir.clone().unwrap_or_else(Layout::default_root))
    }
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Output {
    #[default]
    Text,
    Json,
    Yaml,
}

impl Output {
    /// Prints a document in the machine-readable forms; `false` when text is asked for.
    pub fn print(self, document: &serde_json::Value) -> anyhow::Result<bool> {
        match self {
            Self::Text => return Ok(false),
            Self::Json => println!("{}", serde_json::to_string_pretty(document)?),
            Self::Yaml => print!("{}", serde_saphyr::to_string(document)?),
        }
        Ok(true)
    }
}
