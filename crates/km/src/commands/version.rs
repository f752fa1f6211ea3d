//! `km version`.

use clap::Args;

use super::Output;
use crate::exit::Failed;

#[derive(Args, Debug)]
pub struct Flags {
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Yaml => "yaml",
        })
    }
}

pub fn run(flags: &Flags) -> Result<(), Failed> {
    let document = serde_json::json!({
        "km": km_observe::VERSION,
        "kubernetes": km_observe::KUBERNETES_VERSION,
        "mesos": "v1 API of 1.11",
    });
    if !flags.output.print(&document)? {
        println!("km {} (Kubernetes {}, Mesos v1 API of 1.11)", km_observe::VERSION, km_observe::KUBERNETES_VERSION);
    }
    Ok(())
}
