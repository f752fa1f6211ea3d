//! Applying manifests: each document is created, or merged into the object that is there.

use std::{fs, path::Path};

use anyhow::{Context, Result, anyhow, bail};
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::{ApiResource, Scope},
};
use serde_json::Value;

const MANAGER: &str = "km-up";

/// An object that was applied.
#[derive(Clone, Debug)]
pub struct Applied {
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

/// Reads all documents of a manifest. An error names the file, the document and what is missing.
pub fn read(path: &Path) -> Result<Vec<DynamicObject>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read manifest {}", path.display()))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).with_context(|| format!("manifest {} is not YAML", path.display()))?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate().filter(|(_, document)| !document.is_null()) {
        let place = format!("manifest {}, document {}", path.display(), index + 1);
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            if document.pointer(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                bail!("{place}: {} is missing", field[1..].replace('/', "."));
            }
        }
        objects.push(serde_json::from_value(document).with_context(|| format!("{place} is not a Kubernetes object"))?);
    }
    Ok(objects)
}

/// Applies a manifest's objects in their order.
pub async fn apply(client: &Client, path: &Path) -> Result<Vec<Applied>> {
    let objects = read(path)?;
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.context("cannot ask the API server for its kinds")?;
    let mut applied = Vec::new();
    for object in objects {
        let place = || format!("manifest {}: {} {}", path.display(), kind(&object), name(&object));
        applied.push(apply_one(client, &discovery, &object).await.with_context(place)?);
    }
    Ok(applied)
}

async fn apply_one(client: &Client, discovery: &Discovery, object: &DynamicObject) -> Result<Applied> {
    let (resource, scope) = resolve(discovery, object)?;
    let namespace = match scope {
        Scope::Namespaced => Some(object.metadata.namespace.clone().unwrap_or_else(|| "default".into())),
        Scope::Cluster => None,
    };
    let api: Api<DynamicObject> = match &namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let create = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
    match api.create(&create, object).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 && status.reason == "AlreadyExists" => {
            api.patch(name(object), &PatchParams::apply(MANAGER), &Patch::Strategic(object)).await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Applied { kind: kind(object).to_owned(), namespace, name: name(object).to_owned() })
}

fn resolve(discovery: &Discovery, object: &DynamicObject) -> Result<(ApiResource, Scope)> {
    let types = object.types.as_ref().ok_or_else(|| anyhow!("apiVersion and kind are missing"))?;
    let wanted = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) = discovery
        .resolve_gvk(&wanted)
        .ok_or_else(|| anyhow!("the API server knows no kind {} in {}", types.kind, types.api_version))?;
    Ok((resource, capabilities.scope))
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

fn name(object: &DynamicObject) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(manifest: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), manifest).unwrap();
        format!("{:#}", read(file.path()).unwrap_err())
    }

    #[test]
    fn a_wrong_manifest_names_the_document_and_the_field() {
        let good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert!(
            error(&format!("{good}---\nkind: Pod\nmetadata: {{name: b}}\n"))
                .contains("document 2: apiVersion is missing")
        );
        assert!(error("apiVersion: v1\nkind: Pod\n").contains("document 1: metadata.name is missing"));
        assert!(error("a: [1\n").contains("is not YAML"));
    }

    #[test]
    fn empty_documents_are_skipped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n").unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 1);
    }
}
