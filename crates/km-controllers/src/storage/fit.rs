//! Whether a volume will do for a claim.

use super::{is_deleting, is_reserved_for};
use crate::core::Resource;
use crate::core::{World, labels_at, text};
use km_kube::quantity::Quantity;
use km_kube::selector::LabelSelector;
use serde_json::Value;

/// The volume that is reserved for the claim and will do, else the smallest free one; of equals the first by name.
/// Costs a look at every volume.
pub(super) fn best<'a>(world: &'a World, claim: &Value, may_choose: bool) -> Option<&'a Value> {
    let volumes = || world.within(&Resource::volumes(), "").filter(|volume| !is_deleting(volume));
    let reserved = volumes().find(|volume| is_reserved_for(volume, claim) && lacks(volume, claim, true).is_none());
    if reserved.is_some() || !may_choose {
        return reserved;
    }
    let free = volumes().filter(|volume| {
        volume["spec"].get("claimRef").is_none_or(Value::is_null) && text(volume, "/status/phase") == "Available"
    });
    let fitting = free.filter(|volume| lacks(volume, claim, false).is_none() && is_selected(volume, claim));
    fitting.min_by_key(|volume| bytes(volume, "/spec/capacity/storage"))
}

/// What of a volume keeps a claim from it. One that was `reserved` by hand may be of another class.
pub(super) fn lacks(volume: &Value, claim: &Value, reserved: bool) -> Option<String> {
    let mode = |object: &Value| text(object, "/spec/volumeMode").to_owned();
    let (has, wants) = (bytes(volume, "/spec/capacity/storage"), bytes(claim, "/spec/resources/requests/storage"));
    let class = |object: &Value| text(object, "/spec/storageClassName").to_owned();
    let modes = |object: &Value| -> Vec<String> {
        let modes = object.pointer("/spec/accessModes").and_then(Value::as_array).into_iter().flatten();
        modes.filter_map(|mode| mode.as_str().map(str::to_owned)).collect()
    };
    let offered = modes(volume);
    if has < wants {
        Some("requested PV is too small".to_owned())
    } else if mode(volume) != mode(claim) {
        Some("volumeMode does not match".to_owned())
    } else if !reserved && class(volume) != class(claim) {
        Some("storageClassName does not match".to_owned())
    } else if !modes(claim).iter().all(|mode| offered.contains(mode)) {
        Some("accessModes do not match".to_owned())
    } else {
        None
    }
}

/// A selector that can't be read selects nothing.
fn is_selected(volume: &Value, claim: &Value) -> bool {
    let Some(selector) = claim["spec"].get("selector") else { return true };
    let labels = labels_at(volume, "/metadata/labels");
    LabelSelector::from_object(selector).is_ok_and(|selector| selector.matches(&labels))
}

fn bytes(object: &Value, at: &str) -> i64 {
    let amount = object.pointer(at).cloned().unwrap_or_default();
    serde_json::from_value::<Quantity>(amount).map(|amount| amount.value()).unwrap_or(0)
}
