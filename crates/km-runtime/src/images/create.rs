//! Makes small images of files that we have, with digests that depend on the content only.

use std::io;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{ImageStore, StagedLayers};
use crate::{ImageInfo, Result, files::Context, reference::Reference};

pub enum Node<'a> {
    Folder { mode: u32 },
    File { mode: u32, content: &'a [u8] },
    Link { target: &'a str },
}

/// One layer as a tar, in the given order.
pub fn layer(nodes: &[(&str, Node<'_>)]) -> io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, node) in nodes {
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match node {
            Node::Folder { mode } => {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(*mode);
                builder.append_data(&mut header, path, io::empty())?;
            }
            Node::File { mode, content } => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_mode(*mode);
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, path, *content)?;
            }
            Node::Link { target } => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target)?;
            }
        }
    }
    builder.into_inner()
}

/// The configuration of an image with one layer. `config` has the keys of the OCI image specification (`Cmd`, …).
pub fn configuration(layer: &[u8], config: &serde_json::Value) -> String {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{:x}", Sha256::digest(layer))] },
    })
    .to_string()
}

impl ImageStore {
    /// Stores an image with one layer, unless it is there already. Blocking.
    pub(crate) fn create(
        &self,
        reference: &Reference,
        nodes: &[(&str, Node<'_>)],
        config: &serde_json::Value,
    ) -> Result<ImageInfo> {
        let tar = layer(nodes).context(|| format!("making the image {reference}"))?;
        let config = configuration(&tar, config);
        let id = format!("sha256:{:x}", Sha256::digest(&config));
        if let Some(present) = self.get(&reference.to_string())?
            && present.id == id
        {
            return Ok(present);
        }
        let mut staged = StagedLayers::default();
        staged.add(self, Some(&format!("sha256:{:x}", Sha256::digest(&tar))), &tar[..])?;
        self.register(config.as_bytes(), std::slice::from_ref(reference), &staged)
    }
}
