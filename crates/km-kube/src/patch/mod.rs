//! The three patches of the Kubernetes API that need no field ownership: JSON patch, merge patch, strategic merge patch.

mod strategic;
mod strategic_list;

use serde_json::Value;

pub use strategic::strategic_merge;

/// More operations than this are refused, as Kubernetes does.
pub const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not shaped as its kind must be. The API answers 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object: a path is missing, a test failed. The API answers 422.
    #[error("{0}")]
    DoesNotApply(String),
}

/// RFC 6902: a list of operations.
///
/// # Errors
/// When the list is malformed or too long, an operation's path does not exist, or a `test` fails.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("error decoding JSON patch: {error}")))?;
    if operations.0.len() > MAX_JSON_PATCH_OPERATIONS {
        let (most, have) = (MAX_JSON_PATCH_OPERATIONS, operations.0.len());
        return Err(PatchError::Malformed(format!(
            "The allowed maximum operations in a JSON patch is {most}, got {have}"
        )));
    }
    let mut target = object.clone();
    json_patch::patch(&mut target, &operations).map_err(|error| PatchError::DoesNotApply(error.to_string()))?;
    Ok(target)
}

/// RFC 7396: an object laid over the other; `null` deletes.
///
/// # Errors
/// When the patch is no object.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("a merge patch must be a JSON object".to_owned()));
    }
    let mut target = object.clone();
    json_patch::merge(&mut target, patch);
    Ok(target)
}

#[cfg(test)]
mod diff;
#[cfg(test)]
mod tests;
