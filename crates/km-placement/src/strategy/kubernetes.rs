//! The scores of the Kubernetes scheduler: its default plugins with their weights.

use std::collections::{BTreeMap, BTreeSet};

use super::{Candidate, Chooser, Contest, resources::FitScoring};
use crate::{need::Need, rules::WishKind};

/// Scores from 0 to 100 by plugin and node.
pub type Scores = BTreeMap<&'static str, BTreeMap<String, i64>>;

const HIGHEST: i64 = 100;
/// Images smaller than this count for nothing, and larger than that (for each container) for no more.
const SMALLEST_IMAGE: i64 = 23 << 20;
const LARGEST_IMAGE: i64 = 1000 << 20;
/// Domains of this label are single nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// See [`super::Strategy::Kubernetes`].
#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    pub fit: FitScoring,
}

impl Chooser for Kubernetes {
    fn rank(&self, _: &Candidate<'_>) -> i64 {
        0
    }

    fn compares(&self) -> bool {
        true
    }

    fn minds_wishes(&self) -> bool {
        false
    }

    fn choose(&self, contest: &Contest<'_>) -> Option<usize> {
        if contest.candidates.len() < 2 {
            return (!contest.candidates.is_empty()).then_some(0);
        }
        let plugins = self.plugins(contest);
        let total = |at: usize| plugins.iter().map(|(_, weight, scores)| weight * scores[at]).sum::<i64>();
        // Of equals the first: max_by_key would take the last.
        (0..contest.candidates.len()).rev().max_by_key(|at| total(*at))
    }
}

impl Kubernetes {
    /// Each plugin's scores.
    pub fn scores(&self, contest: &Contest<'_>) -> Scores {
        let names = || contest.candidates.iter().map(|candidate| candidate.name.to_owned());
        let plugins = self.plugins(contest).into_iter();
        plugins.map(|(name, _, scores)| (name, names().zip(scores).collect())).collect()
    }

    /// Name, weight and scores of each plugin.
    fn plugins(&self, contest: &Contest<'_>) -> Vec<(&'static str, i64, Vec<i64>)> {
        let (need, nodes) = (contest.need, &contest.candidates);
        vec![
            ("TaintToleration", 3, taints(need, nodes)),
            ("NodeAffinity", 2, node_affinity(need, nodes)),
            ("NodeResourcesFit", 1, nodes.iter().map(|node| self.fit.score(need, node)).collect()),
            ("PodTopologySpread", 2, spread(contest)),
            ("InterPodAffinity", 2, pod_affinity(contest)),
            ("NodeResourcesBalancedAllocation", 1, nodes.iter().map(|node| self.fit.balance(need, node)).collect()),
            ("ImageLocality", 1, images(contest)),
        ]
    }
}

fn taints(need: &Need, nodes: &[Candidate<'_>]) -> Vec<i64> {
    let raw: Vec<i64> = nodes.iter().map(|node| need.disliked_taints(&node.facts.taints, false)).collect();
    let most = raw.iter().copied().max().unwrap_or(0).max(1);
    raw.into_iter().map(|count| HIGHEST - HIGHEST * count / most).collect()
}

fn node_affinity(need: &Need, nodes: &[Candidate<'_>]) -> Vec<i64> {
    let raw: Vec<i64> = nodes.iter().map(|node| need.preference(node.name, &node.facts.labels)).collect();
    let most = raw.iter().copied().max().unwrap_or(0).max(1);
    raw.into_iter().map(|sum| HIGHEST * sum / most).collect()
}

/// Few pods in the node's domains are good; the more domains a constraint has, the more it weighs.
fn spread(contest: &Contest<'_>) -> Vec<i64> {
    let soft = contest.wishes.iter().filter_map(|(kind, label, near)| match kind {
        WishKind::Spread { max_skew, lenient } => Some((*max_skew, *lenient, label, near)),
        WishKind::Weight(_) => None,
    });
    let soft: Vec<_> = soft.collect();
    if soft.is_empty() {
        return vec![0; contest.candidates.len()];
    }
    let in_all = |at: usize| soft.iter().all(|(_, lenient, _, near)| *lenient || near[at].is_some());
    let counted: Vec<usize> = (0..contest.candidates.len()).filter(|at| in_all(*at)).collect();
    let mut sums = vec![0.0; contest.candidates.len()];
    for (max_skew, _, label, near) in &soft {
        let domains: BTreeSet<u32> = counted.iter().filter_map(|at| near[*at]).map(|(domain, _)| domain).collect();
        let size = if label.as_str() == HOSTNAME { counted.len() } else { domains.len() };
        let weight = (size as f64 + 2.0).ln();
        for at in &counted {
            if let Some((_, count)) = near[*at] {
                sums[*at] += f64::from(count) * weight + (*max_skew - 1) as f64;
            }
        }
    }
    let raw: Vec<i64> = sums.into_iter().map(|sum: f64| sum.round() as i64).collect();
    let most = counted.iter().map(|at| raw[*at]).max().unwrap_or(0);
    let least = counted.iter().map(|at| raw[*at]).min().unwrap_or(0);
    let score = |at: usize| match in_all(at) {
        false => 0,
        true if most == 0 => HIGHEST,
        true => HIGHEST * (most + least - raw[at]) / most,
    };
    (0..contest.candidates.len()).map(score).collect()
}

fn pod_affinity(contest: &Contest<'_>) -> Vec<i64> {
    let mut raw = vec![0; contest.candidates.len()];
    for (kind, _, near) in &contest.wishes {
        if let WishKind::Weight(weight) = kind {
            for (sum, near) in raw.iter_mut().zip(near) {
                *sum += i64::from(*weight) * near.map_or(0, |(_, count)| i64::from(count));
            }
        }
    }
    let most = raw.iter().copied().max().unwrap_or(0);
    let least = raw.iter().copied().min().unwrap_or(0);
    let score = |sum: i64| if most == least { 0 } else { HIGHEST * (sum - least) / (most - least) };
    raw.into_iter().map(score).collect()
}

/// Images that are there already are good; those that few nodes have count less, so that nodes don't attract ever more
/// pods.
fn images(contest: &Contest<'_>) -> Vec<i64> {
    let nodes = i64::try_from(contest.nodes.max(1)).unwrap_or(i64::MAX);
    let largest = LARGEST_IMAGE * i64::try_from(contest.need.images.len().max(1)).unwrap_or(1);
    let score = |node: &Candidate<'_>| {
        let there = contest.need.images.iter().zip(&contest.image_spread);
        let sum: i64 = there
            .filter_map(|(image, holders)| Some((node.facts.images.get(image)?, *holders as i64)))
            .map(|(size, holders)| size * holders / nodes)
            .sum();
        HIGHEST * (sum.clamp(SMALLEST_IMAGE, largest) - SMALLEST_IMAGE) / (largest - SMALLEST_IMAGE)
    };
    contest.candidates.iter().map(score).collect()
}
