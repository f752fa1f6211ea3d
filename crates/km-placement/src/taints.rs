//! Taints, tolerations and the cordon.

use k8s_openapi::api::core::v1::{PodSpec, Taint, Toleration};

/// The taint that stands for `spec.unschedulable`.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Whether the pod tolerates every taint that keeps pods out.
pub(crate) fn tolerated(spec: &PodSpec, taints: &[Taint], comparisons: bool) -> bool {
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .all(|taint| tolerations(spec).any(|toleration| tolerates(toleration, taint, comparisons)))
}

/// Whether the pod may go to a cordoned node.
pub(crate) fn tolerates_cordon(spec: &PodSpec) -> bool {
    let taint = Taint { key: CORDON.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    tolerations(spec).any(|toleration| tolerates(toleration, &taint, false))
}

fn tolerations(spec: &PodSpec) -> impl Iterator<Item = &Toleration> {
    spec.tolerations.iter().flatten()
}

/// An empty effect tolerates all effects, an empty key (with `Exists`) all keys. `Gt` and `Lt` compare integers, the
/// taint's value on the left; they count only with `comparisons` (alpha in Kubernetes 1.37).
fn tolerates(toleration: &Toleration, taint: &Taint, comparisons: bool) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    let have = taint.value.as_deref().unwrap_or_default();
    let want = toleration.value.as_deref().unwrap_or_default();
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => !key.is_empty() && have == want,
        "Gt" => comparisons && numbers(have, want).is_some_and(|(have, want)| have > want),
        "Lt" => comparisons && numbers(have, want).is_some_and(|(have, want)| have < want),
        _ => false,
    }
}

fn numbers(have: &str, want: &str) -> Option<(i64, i64)> {
    Some((have.parse().ok()?, want.parse().ok()?))
}
