//! Namespaces: the finalizer that keeps them until their content is gone, and the label with their name.

use serde_json::{Value, json};

use crate::{failure::Failure, registry::Hooks, server::Server};

pub const HOOKS: Hooks = Hooks { create, update };

/// Namespaces that nobody may delete.
pub const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

fn create(_: &Server, namespace: &mut Value) -> Result<(), Failure> {
    namespace["spec"] = json!({ "finalizers": ["kubernetes"] });
    namespace["status"] = json!({ "phase": "Active" });
    label(namespace);
    Ok(())
}

fn update(_: &Server, old: &Value, new: &mut Value) -> Result<(), Failure> {
    // Only the finalize subresource changes the spec.
    new["spec"] = old["spec"].clone();
    label(new);
    Ok(())
}

fn label(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    if !namespace["metadata"]["labels"].is_object() {
        namespace["metadata"]["labels"] = json!({});
    }
    namespace["metadata"]["labels"][NAME_LABEL] = name;
}
