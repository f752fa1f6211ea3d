//! What persistent volumes are made of.

use serde_json::Value;

/// Fields of a volume's spec that don't say what is behind it.
const NO_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// The sources that the spec of a PersistentVolume names, by field: `hostPath`, `local`, `nfs`, …; one in a valid spec.
pub fn sources(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = spec.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value));
    fields.filter(|(name, value)| !NO_SOURCES.contains(name) && !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_sources_are_named() {
        let spec = json!({"capacity": {"storage": "1Gi"}, "nfs": null, "local": {"path": "/a"}, "volumeMode": "Block"});
        assert_eq!(sources(&spec).map(|(name, _)| name).collect::<Vec<_>>(), ["local"]);
    }
}
