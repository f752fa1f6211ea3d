//! Merging the cluster's context into a user's kubeconfig, and taking it out again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::state::write_atomically;

/// Where kubectl looks: the first file of `$KUBECONFIG`, else `~/.kube/config`.
pub fn default_path() -> Option<PathBuf> {
    let first = std::env::var_os("KUBECONFIG").and_then(|list| std::env::split_paths(&list).next());
    first
        .filter(|path| !path.as_os_str().is_empty())
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config")))
}

/// Puts the only cluster, user and context of `ours` into the file at `path` under the name `name`, and makes the
/// context the current one. What else the file holds stays.
pub fn merge_into(path: &Path, name: &str, ours: &Value) -> Result<()> {
    let mut config = read(path)?.unwrap_or_else(|| json!({ "apiVersion": "v1", "kind": "Config" }));
    let only = |list: &str, field: &str| -> Result<Value> {
        let entry = ours.pointer(&format!("/{list}/0/{field}"));
        entry.cloned().with_context(|| format!("the cluster's own kubeconfig has no {list}[0].{field}"))
    };
    upsert(&mut config, path, "clusters", name, json!({ "name": name, "cluster": only("clusters", "cluster")? }))?;
    upsert(&mut config, path, "users", name, json!({ "name": name, "user": only("users", "user")? }))?;
    let context = json!({ "name": name, "context": { "cluster": name, "user": name } });
    upsert(&mut config, path, "contexts", name, context)?;
    config["current-context"] = name.into();
    write(path, &config)
}

/// Takes the context `name` with its cluster and user out of the file at `path`. A file without it is left alone.
pub fn remove_from(path: &Path, name: &str) -> Result<()> {
    let Some(mut config) = read(path)? else { return Ok(()) };
    let before = config.clone();
    for list in ["clusters", "users", "contexts"] {
        if let Some(entries) = config.get_mut(list).and_then(Value::as_array_mut) {
            entries.retain(|entry| entry["name"] != name);
        }
    }
    if config["current-context"] == name {
        config["current-context"] = "".into();
    }
    if config == before { Ok(()) } else { write(path, &config) }
}

/// Reads a kubeconfig, or nothing when there is none.
pub fn read(path: &Path) -> Result<Option<Value>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: Value =
        serde_saphyr::from_str(&text).with_context(|| format!("{} is not a kubeconfig in YAML", path.display()))?;
    if !value.is_object() {
        bail!("{} is not a kubeconfig: its top level must be a map", path.display());
    }
    Ok(Some(value))
}

fn upsert(config: &mut Value, path: &Path, list: &str, name: &str, entry: Value) -> Result<()> {
    let config = config.as_object_mut().context("a kubeconfig's top level is a map")?;
    let entries = config.entry(list).or_insert_with(|| Value::Array(Vec::new()));
    if entries.is_null() {
        *entries = Value::Array(Vec::new());
    }
    let Some(entries) = entries.as_array_mut() else { bail!("{}: {list} must be a list", path.display()) };
    match entries.iter_mut().find(|known| known["name"] == name) {
        Some(known) => merge_entry(known, entry),
        None => entries.push(entry),
    }
    Ok(())
}

/// The new entry wins, but a context keeps what a user added to it (its namespace).
fn merge_entry(known: &mut Value, entry: Value) {
    let namespace = known.pointer("/context/namespace").cloned();
    *known = entry;
    if let (Some(namespace), Some(context)) = (namespace, known.get_mut("context").and_then(Value::as_object_mut)) {
        let context: &mut Map<String, Value> = context;
        context.insert("namespace".into(), namespace);
    }
}

fn write(path: &Path, config: &Value) -> Result<()> {
    write_atomically(path, serde_saphyr::to_string(config)?.as_bytes(), 0o600)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(server: &str) -> Value {
        json!({
            "clusters": [{ "name": "x", "cluster": { "server": server } }],
            "users": [{ "name": "x", "user": { "client-key-data": "a2V5" } }],
        })
    }

    #[test]
    fn merging_keeps_other_contexts_and_removing_takes_only_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let other = "apiVersion: v1\nkind: Config\ncurrent-context: work\nclusters:\n- name: work\n  cluster: {server: \
                     'https://work'}\nusers: []\ncontexts:\n- name: work\n  context: {cluster: work, user: me}\n";
        fs::write(&path, other).unwrap();
        merge_into(&path, "km", &ours("https://one")).unwrap();
        merge_into(&path, "km", &ours("https://two")).unwrap();
        let merged = read(&path).unwrap().unwrap();
        assert_eq!(merged["current-context"], "km");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://two");
        remove_from(&path, "km").unwrap();
        let left = read(&path).unwrap().unwrap();
        assert_eq!(left["clusters"].as_array().unwrap().len(), 1);
        assert_eq!(left["current-context"], "");
    }

    #[test]
    fn a_new_file_is_private_and_a_wrong_one_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config");
        merge_into(&path, "km", &ours("https://one")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "- a list\n").unwrap();
        let error = format!("{:#}", merge_into(&path, "km", &ours("x")).unwrap_err());
        assert!(error.contains("top level must be a map"), "{error}");
    }

    #[test]
    fn a_context_keeps_its_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        merge_into(&path, "km", &ours("https://one")).unwrap();
        let mut config = read(&path).unwrap().unwrap();
        config["contexts"][0]["context"]["namespace"] = "mine".into();
        write(&path, &config).unwrap();
        merge_into(&path, "km", &ours("https://two")).unwrap();
        assert_eq!(read(&path).unwrap().unwrap()["contexts"][0]["context"]["namespace"], "mine");
    }
}
