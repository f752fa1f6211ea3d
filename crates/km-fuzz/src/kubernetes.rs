//! Kubernetes: quantities, selectors, patches.

use km_kube::{
    patch::{json_patch, merge_patch},
    quantity::Quantity,
    selector::{FieldSelector, LabelSelector},
};
use serde_json::Value;

use crate::text;

/// What is printed is read as the same.
pub fn syntax(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(quantity) = Quantity::parse(text) {
        let again = Quantity::parse(&quantity.to_string());
        assert_eq!(again.map(|again| again.nanos()), Ok(quantity.nanos()), "{quantity}");
    }
    if let Ok(selector) = LabelSelector::parse(text) {
        assert_eq!(LabelSelector::parse(&selector.to_string()).as_ref(), Ok(&selector), "{selector}");
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let found = selector.matches(|_| String::new());
        assert!(found || !selector.is_everything(), "{selector} asks for nothing");
    }
    let (object, patch) = text.split_once('\n').unwrap_or((text, text));
    if let (Ok(object), Ok(patch)) = (serde_json::from_str::<Value>(object), serde_json::from_str::<Value>(patch)) {
        if let Ok(merged) = merge_patch(&object, &patch) {
            assert_eq!(merge_patch(&merged, &patch).as_ref(), Ok(&merged), "a merge patch once more changes nothing");
        }
        if let Err(error) = json_patch(&object, &patch) {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
        }
    }
}
