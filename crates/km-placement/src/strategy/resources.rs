//! Scores by resources: `NodeResourcesFit` and `NodeResourcesBalancedAllocation` of Kubernetes.

use super::Candidate;
use crate::need::Need;

const HIGHEST: i64 = 100;
/// Used fractions are counted in billionths.
const ONE: i128 = 1_000_000_000;

/// How `NodeResourcesFit` scores, and which resources both plugins look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitScoring {
    pub shape: Shape,
    pub resources: Vec<ResourceWeight>,
}

/// A resource and how much it weighs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceWeight {
    pub name: String,
    pub weight: i64,
}

/// What is liked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Empty nodes.
    LeastAllocated,
    /// Full nodes.
    MostAllocated,
    /// Points of used percent and score (0 to 10), with straight lines between, ordered by the percent.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

impl Default for FitScoring {
    fn default() -> Self {
        let resource = |name: &str| ResourceWeight { name: name.to_owned(), weight: 1 };
        Self { shape: Shape::LeastAllocated, resources: vec![resource("cpu"), resource("memory")] }
    }
}

impl Shape {
    /// None when the resource doesn't count.
    fn score(&self, requested: i64, capacity: i64) -> Option<i64> {
        if capacity == 0 {
            return None;
        }
        match self {
            Self::LeastAllocated if requested > capacity => Some(0),
            Self::LeastAllocated => Some((capacity - requested) * HIGHEST / capacity),
            Self::MostAllocated => Some(requested.min(capacity) * HIGHEST / capacity),
            Self::RequestedToCapacityRatio(points) => {
                let used = if requested > capacity { HIGHEST } else { requested * HIGHEST / capacity };
                Some(on_line(points, used)).filter(|score| *score > 0)
            }
        }
    }
}

fn on_line(points: &[(i64, i64)], used: i64) -> i64 {
    let after = points.iter().position(|(at, _)| used <= *at);
    match after {
        None => points.last().map_or(0, |(_, score)| score * 10),
        Some(0) => points[0].1 * 10,
        Some(after) => {
            let ((from, low), (to, high)) = (points[after - 1], points[after]);
            low * 10 + (high - low) * 10 * (used - from) / (to - from)
        }
    }
}

impl FitScoring {
    /// The weighted mean over the resources, with defaults for containers that ask for nothing.
    pub(super) fn score(&self, need: &Need, node: &Candidate<'_>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for ResourceWeight { name, weight } in &self.resources {
            let requested = match name.as_str() {
                "cpu" => node.scored[0] + need.scored[0],
                "memory" => node.scored[1] + need.scored[1],
                other => match need.amounts.other.get(other) {
                    Some(amount) if *amount > 0 => amount + node.requested.other.get(other).copied().unwrap_or(0),
                    _ => continue,
                },
            };
            if let Some(score) = self.shape.score(requested, capacity(node, name)) {
                sum += score * weight;
                weights += weight;
            }
        }
        match self.shape {
            _ if weights == 0 => 0,
            Shape::RequestedToCapacityRatio(_) => (2 * sum + weights) / (2 * weights),
            _ => sum / weights,
        }
    }

    /// How evenly the resources are used with the pod, and whether that is better than without. Pods that ask for
    /// nothing get nothing.
    pub(super) fn balance(&self, need: &Need, node: &Candidate<'_>) -> i64 {
        let asked = |name: &str| amount(&need.amounts, name);
        if self.resources.iter().all(|resource| asked(&resource.name) == 0) {
            return 0;
        }
        let fraction = |name: &str, more: i64| {
            let capacity = capacity(node, name);
            let counts = capacity > 0 && (matches!(name, "cpu" | "memory") || asked(name) > 0);
            let used = i128::from(amount(node.requested, name) + more);
            counts.then(|| (used * ONE / i128::from(capacity)).clamp(0, ONE))
        };
        let names = || self.resources.iter().map(|resource| resource.name.as_str());
        let with: Vec<i128> = names().filter_map(|name| fraction(name, asked(name))).collect();
        let without: Vec<i128> = names().filter_map(|name| fraction(name, 0)).collect();
        HIGHEST / 2 + (HIGHEST / 2 + evenness(&with) - evenness(&without)) / 2
    }
}

/// 100 when all fractions are the same, less by their standard deviation.
fn evenness(fractions: &[i128]) -> i64 {
    let count = fractions.len().max(1) as i128;
    let mean = fractions.iter().sum::<i128>() / count;
    let variance = fractions.iter().map(|fraction| (fraction - mean).pow(2)).sum::<i128>() / count;
    let deviation = variance.isqrt();
    i64::try_from((ONE - deviation) * i128::from(HIGHEST) / ONE).unwrap_or(0)
}

fn capacity(node: &Candidate<'_>, name: &str) -> i64 {
    amount(&node.facts.capacity, name)
}

fn amount(amounts: &crate::Amounts, name: &str) -> i64 {
    match name {
        "cpu" => amounts.milli_cpu,
        "memory" => amounts.memory_bytes,
        other => amounts.other.get(other).copied().unwrap_or(0),
    }
}
