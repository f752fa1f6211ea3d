//! Controllers of pods: replication controllers, replica sets, deployments, stateful sets, daemon sets.

use super::at::{At, Errors};
use super::{meta, pod};
use crate::selector::LabelSelector;
use serde_json::Value;

/// A pod template; `restart` lists the restart policies that the controller can live with, empty for all.
pub(super) fn template(at: &At<'_>, restart: &[&str], errors: &mut Errors) {
    meta::labels(&at.down("metadata.labels"), errors);
    pod::spec(&at.field("spec"), errors);
    let policy = at.down("spec.restartPolicy");
    if !restart.is_empty() && matches!(policy.text(), "Always" | "OnFailure" | "Never") {
        policy.one_of(restart, errors);
    }
}

pub(super) fn replication_controller(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    spec.field("replicas").at_least(0, errors);
    spec.field("minReadySeconds").at_least(0, errors);
    let selector = spec.field("selector");
    if !selector.need(errors) {
        return;
    }
    meta::labels(&selector, errors);
    let pod_template = spec.field("template");
    if !pod_template.need(errors) {
        return;
    }
    let labels = pod_template.down("metadata.labels");
    if !LabelSelector::from_map(&selector.texts()).matches(&labels.texts()) {
        errors.push(labels.invalid("`selector` does not match template `labels`"));
    }
    template(&pod_template, &["Always"], errors);
}

/// `selector` and `template` of the kinds in group apps. `kind` is how the message names it.
fn selected_template(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let (selector, pod_template) = (spec.field("selector"), spec.field("template"));
    if !selector.is_set() {
        errors.push(selector.required(""));
    } else {
        match LabelSelector::from_object(selector.value) {
            Err(error) => errors.push(selector.invalid(&error.to_string())),
            Ok(found) if found.is_everything() => {
                errors.push(selector.invalid(&format!("empty selector is invalid for {kind}")));
            }
            Ok(found) if pod_template.is_set() => {
                let labels = pod_template.down("metadata.labels");
                if !found.matches(&labels.texts()) {
                    errors.push(labels.invalid("`selector` does not match template `labels`"));
                }
            }
            Ok(_) => {}
        }
    }
    if pod_template.need(errors) {
        template(&pod_template, &["Always"], errors);
    }
}

pub(super) fn replica_set(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    spec.field("replicas").at_least(0, errors);
    spec.field("minReadySeconds").at_least(0, errors);
    selected_template(&spec, "replicaset", errors);
}

pub(super) fn deployment(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.field(name).at_least(0, errors);
    }
    selected_template(&spec, "deployment", errors);
    strategy(&spec.field("strategy"), errors);
    let (deadline, ready) = (spec.field("progressDeadlineSeconds"), spec.field("minReadySeconds"));
    if deadline.integer().is_some_and(|seconds| seconds <= ready.integer().unwrap_or(0)) {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn strategy(at: &At<'_>, errors: &mut Errors) {
    at.field("type").one_of(&["Recreate", "RollingUpdate"], errors);
    let rolling = at.field("rollingUpdate");
    if at.field("type").text() == "Recreate" {
        if rolling.is_set() {
            errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        return;
    }
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    count_or_percent(&unavailable, true, errors);
    count_or_percent(&surge, false, errors);
    if rolling.is_set() && is_zero(&unavailable) && is_zero(&surge) {
        errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
    }
}

fn is_zero(at: &At<'_>) -> bool {
    matches!(at.value, Value::Null) || at.integer() == Some(0) || at.text() == "0%"
}

/// A count or a percentage such as `25%`; `to_hundred` forbids more than all.
pub(super) fn count_or_percent(at: &At<'_>, to_hundred: bool, errors: &mut Errors) {
    if !at.value.is_string() {
        at.at_least(0, errors);
        return;
    }
    let number = at.text().strip_suffix('%').filter(|digits| !digits.is_empty());
    match number.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())).map(str::parse::<u32>) {
        Some(Ok(percent)) if to_hundred && percent > 100 => errors.push(at.invalid("must not be greater than 100%")),
        Some(Ok(_)) => {}
        _ => errors.push(at.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
             used for validation is '[0-9]+%')",
        )),
    }
}

pub(super) fn stateful_set(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        spec.field(name).at_least(0, errors);
    }
    spec.field("podManagementPolicy").one_of(&["OrderedReady", "Parallel"], errors);
    spec.down("updateStrategy.type").one_of(&["OnDelete", "RollingUpdate"], errors);
    spec.down("updateStrategy.rollingUpdate.partition").at_least(0, errors);
    for name in ["whenDeleted", "whenScaled"] {
        spec.field("persistentVolumeClaimRetentionPolicy").field(name).one_of(&["Retain", "Delete"], errors);
    }
    // The volumes that claims make are not in the template: its mounts may refer to them.
    let mut with_claims = spec.value.clone();
    for claim in spec.field("volumeClaimTemplates").items() {
        let name = claim.down("metadata.name").text();
        let volume = serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": "of-the-set"}});
        if let Some(pod_spec) = with_claims.pointer_mut("/template/spec").and_then(Value::as_object_mut) {
            let volumes = pod_spec.entry("volumes").or_insert_with(|| Value::Array(Vec::new()));
            if let Some(volumes) = volumes.as_array_mut()
                && !volumes.iter().any(|other| other["name"] == name)
            {
                volumes.push(volume);
            }
        }
    }
    selected_template(&At { path: spec.path.clone(), value: &with_claims }, "statefulset", errors);
}

pub(super) fn stateful_set_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    const MAY_CHANGE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| {
        let fields = spec.as_object().cloned().unwrap_or_default();
        let kept = |name: &String| !MAY_CHANGE.contains(&name.as_str());
        fields.into_iter().filter(|(name, _)| kept(name)).collect::<serde_json::Map<_, _>>()
    };
    if fixed(root.field("spec").value) != fixed(before.field("spec").value) {
        errors.push(root.field("spec").forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

pub(super) fn daemon_set(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    spec.field("minReadySeconds").at_least(0, errors);
    spec.field("revisionHistoryLimit").at_least(0, errors);
    spec.down("updateStrategy.type").one_of(&["RollingUpdate", "OnDelete"], errors);
    let rolling = spec.down("updateStrategy.rollingUpdate");
    count_or_percent(&rolling.field("maxUnavailable"), true, errors);
    count_or_percent(&rolling.field("maxSurge"), true, errors);
    selected_template(&spec, "daemonset", errors);
}
