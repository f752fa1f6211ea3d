//! Naming a template.

use km_kube::keys::POD_TEMPLATE_HASH;
use serde_json::Value;

/// Letters and digits that make no words and are hard to mistake.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name of a template. `collisions` counts how often the name was taken by another template.
pub(super) fn template_hash(template: &Value, collisions: i64) -> String {
    // FNV-1a over the canonical text: maps of serde_json are ordered by key.
    let text = format!("{template}{}", if collisions > 0 { collisions.to_string() } else { String::new() });
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// Whether two templates are the same but for the hash label.
pub(super) fn same_template(one: &Value, other: &Value) -> bool {
    let bare = |template: &Value| {
        let mut template = template.clone();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(POD_TEMPLATE_HASH);
        }
        if let Some(metadata) = template.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| !value.is_null() && value != &Value::Object(serde_json::Map::new()));
        }
        template
    };
    bare(one) == bare(other)
}
