//! Taints, tolerations and the cordon.

use k8s_openapi::api::core::v1::{self, Taint};

use super::Need;

/// The taint that stands for `spec.unschedulable`.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// A toleration. An empty effect means all effects, an empty key (with `Exists`) all keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Toleration {
    key: String,
    value: String,
    effect: String,
    comparison: Comparison,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Comparison {
    Exists,
    Equal,
    Greater,
    Less,
    /// An operator that nobody knows.
    Never,
}

impl Toleration {
    pub fn new(from: &v1::Toleration) -> Self {
        Self {
            key: from.key.clone().unwrap_or_default(),
            value: from.value.clone().unwrap_or_default(),
            effect: from.effect.clone().unwrap_or_default(),
            comparison: match from.operator.as_deref().unwrap_or_default() {
                "Exists" => Comparison::Exists,
                "" | "Equal" => Comparison::Equal,
                "Gt" => Comparison::Greater,
                "Lt" => Comparison::Less,
                _ => Comparison::Never,
            },
        }
    }

    /// `Gt` and `Lt` compare integers, the taint's value on the left; they count only with `comparisons` (alpha in
    /// Kubernetes 1.37).
    fn tolerates(&self, key: &str, value: &str, effect: &str, comparisons: bool) -> bool {
        if !(self.effect.is_empty() || self.effect == effect) || !(self.key.is_empty() || self.key == key) {
            return false;
        }
        let numbers = || Some((value.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.comparison {
            Comparison::Exists => true,
            Comparison::Equal => !self.key.is_empty() && value == self.value,
            Comparison::Greater => comparisons && numbers().is_some_and(|(have, want)| have > want),
            Comparison::Less => comparisons && numbers().is_some_and(|(have, want)| have < want),
            Comparison::Never => false,
        }
    }
}

impl Need {
    /// Whether the pod tolerates every taint that keeps pods out.
    pub(crate) fn tolerates_all(&self, taints: &[Taint], comparisons: bool) -> bool {
        let mut hard = taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
        hard.all(|taint| self.tolerates(taint, comparisons))
    }

    /// How many taints ask the pod to keep out without forcing it. Only tolerations for all effects or for
    /// `PreferNoSchedule` help.
    pub(crate) fn disliked_taints(&self, taints: &[Taint], comparisons: bool) -> i64 {
        let soft = taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        soft.filter(|taint| !self.tolerates(taint, comparisons)).map(|_| 1).sum()
    }

    /// Whether the pod may go to a cordoned node.
    pub(crate) fn tolerates_cordon(&self) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(CORDON, "", "NoSchedule", false))
    }

    fn tolerates(&self, taint: &Taint, comparisons: bool) -> bool {
        let value = taint.value.as_deref().unwrap_or_default();
        self.tolerations.iter().any(|one| one.tolerates(&taint.key, value, &taint.effect, comparisons))
    }
}
