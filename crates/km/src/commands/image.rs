//! `km image`: the container images of this machine.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use km_runtime::images::ImageStore;

use super::DataDir;
use crate::exit::{Exit, Failed};

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Load images from an OCI layout (folder or tar) or a `docker save` archive.
    Load(Load),
    /// List the images that are present.
    #[command(visible_alias = "ls")]
    List(List),
    /// Remove an image.
    #[command(visible_alias = "remove")]
    Rm(Remove),
}

#[derive(Args, Debug)]
pub struct Load {
    #[command(flatten)]
    data: DataDir,
    /// The file or folder.
    file: PathBuf,
}

#[derive(Args, Debug)]
pub struct List {
    #[command(flatten)]
    data: DataDir,
}

#[derive(Args, Debug)]
pub struct Remove {
    #[command(flatten)]
    data: DataDir,
    /// The image's reference, e.g. `busybox:1.35`, or its id.
    reference: String,
}

pub async fn run(command: Command) -> Result<(), Failed> {
    match command {
        Command::Load(flags) => load(&flags),
        Command::List(flags) => list(&flags),
        Command::Rm(flags) => {
            if !open(&flags.data)?.remove(&flags.reference).map_err(anyhow::Error::from)? {
                let missing = anyhow!("there is no image {}", flags.reference);
                return Err(Failed::new(Exit::Failure, missing).way_out("`km image list` shows those that are there"));
            }
            println!("removed {}", flags.reference);
            Ok(())
        }
    }
}

fn load(flags: &Load) -> Result<(), Failed> {
    let store = open(&flags.data)?;
    let references = store.load(&flags.file).map_err(|error| anyhow!("{error}"))?;
    for reference in references {
        println!("loaded {reference}");
    }
    Ok(())
}

fn list(flags: &List) -> Result<(), Failed> {
    println!("{:<50} {:<20} {:>10}", "IMAGE", "ID", "SIZE");
    for image in open(&flags.data)?.list().map_err(anyhow::Error::from)? {
        let id = image.id.strip_prefix("sha256:").unwrap_or(&image.id);
        let size = format!("{:.1} MB", image.size as f64 / 1e6);
        for reference in &image.references {
            println!("{reference:<50} {:<20} {size:>10}", &id[..id.len().min(12)]);
        }
    }
    Ok(())
}

fn open(data: &DataDir) -> Result<ImageStore, Failed> {
    let root = data.layout().images();
    Ok(ImageStore::open(&root).with_context(|| format!("cannot open the image store {}", root.display()))?)
}
