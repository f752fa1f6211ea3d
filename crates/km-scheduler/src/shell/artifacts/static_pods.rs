//! The folder of static pods (`--static-pods-config`), read once at the start.

use std::{fs, path::Path};

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use km_podtask::static_pods;

use crate::Flags;

/// All pods of the folder as the executor's data; nothing without a folder. Files that hold no valid pod are told in
/// the log and left out, as one wrong file should not keep the cluster down.
///
/// # Errors
/// The folder can't be read, or its pods are too many.
pub fn read(flags: &Flags) -> anyhow::Result<Vec<u8>> {
    let Some(folder) = &flags.static_pods_config else { return Ok(Vec::new()) };
    let mut pods = of_folder(folder).with_context(|| format!("--static-pods-config: reading {}", folder.display()))?;
    let (accounting, defaults) = flags.counting();
    let totals = static_pods::settle(&mut pods, accounting, &defaults);
    let (count, milli_cpu, bytes) = (pods.len(), totals.milli_cpu, totals.memory_bytes);
    tracing::info!(folder = %folder.display(), count, milli_cpu, bytes, "static pods, counted into each executor");
    static_pods::pack(&pods).map_err(|why| anyhow::anyhow!("--static-pods-config: {}: {why}", folder.display()))
}

/// In the order of their names, so that the same files make the same executor. Folders inside and empty files are
/// passed over.
fn of_folder(folder: &Path) -> std::io::Result<Vec<Pod>> {
    let mut files: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    Ok(files.iter().filter(|path| path.is_file()).filter_map(|path| of_file(path)).collect())
}

fn of_file(path: &Path) -> Option<Pod> {
    let read = || -> anyhow::Result<Option<Pod>> {
        let text = fs::read_to_string(path)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let name = path.file_name().and_then(|name| name.to_str()).context("its name is no UTF-8")?;
        static_pods::parse(name, &text).map(Some).map_err(anyhow::Error::msg)
    };
    read().unwrap_or_else(|error| {
        tracing::error!(file = %path.display(), %error, "no static pod: the file is left out");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_pods_and_all_else_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let pod = |name: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: x}}]}}\n"
            )
        };
        fs::write(folder.path().join("spod2.json"), pod("second")).unwrap();
        fs::write(folder.path().join("spod.json"), pod("first")).unwrap();
        fs::write(folder.path().join("empty.yaml"), "").unwrap();
        fs::write(folder.path().join("wrong.yaml"), "kind: Service").unwrap();
        fs::write(folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
        fs::create_dir(folder.path().join("dir")).unwrap();
        fs::write(folder.path().join("dir/spod.json"), pod("third")).unwrap();
        let names: Vec<_> =
            of_folder(folder.path()).unwrap().into_iter().map(|pod| pod.metadata.name.unwrap()).collect();
        assert_eq!(names, ["first", "second"]);
        assert!(of_folder(&folder.path().join("none")).is_err());
    }
}
