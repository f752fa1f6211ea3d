//! The executor's folder of static pods: what it runs, for those who look.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use k8s_openapi::api::core::v1::Pod;
use km_podtask::static_pods;

/// Makes the folder and writes each pod into the file that its annotation names. A pod without a usable one is told of
/// and not written.
///
/// # Errors
/// The folder is there already, or cannot be written.
pub fn write(folder: &Path, pods: &[Pod]) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o750).create(folder)?;
    for pod in pods {
        let Some(name) = static_pods::file_name(pod) else {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(pod, "a static pod names no file: it is not written");
            continue;
        };
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o660).open(folder.join(name))?;
        file.write_all(&serde_json::to_vec_pretty(pod)?)?;
    }
    Ok(())
}
