//! Pods counted by domain.

use std::collections::BTreeMap;

use crate::{
    census::Census,
    topology::{NONE, Topology},
};

/// The answer to one question, by the domains of one key.
pub(crate) struct Tally {
    pub question: u32,
    pub key: usize,
    /// How far the question's log is counted in.
    seen: usize,
    /// Nodes whose pods count; none for all.
    counted: Option<Vec<bool>>,
    counts: Vec<u32>,
    /// Pods on nodes that are in no domain.
    outside: u32,
    total: u32,
    /// How many domains with a counted node have each count.
    levels: BTreeMap<u32, u32>,
    /// Domains with a counted node.
    width: usize,
    present: Vec<bool>,
}

impl Tally {
    /// Counts from scratch. Domains exist where a counted node is.
    pub fn new(
        question: u32,
        key: usize,
        counted: Option<Vec<bool>>,
        nodes: impl Iterator<Item = u32>,
        topology: &Topology,
        census: &Census,
    ) -> Self {
        let size = topology.size(key);
        let mut tally = Self {
            question,
            key,
            seen: census.log(question).end(),
            counted,
            counts: vec![0; size],
            outside: 0,
            total: 0,
            levels: BTreeMap::new(),
            width: 0,
            present: vec![false; size],
        };
        for node in nodes.filter(|node| tally.counts_node(*node)).collect::<Vec<_>>() {
            let domain = topology.domain(node, key);
            if domain != NONE && !tally.present[domain as usize] {
                tally.present[domain as usize] = true;
                tally.width += 1;
            }
        }
        if tally.width > 0 {
            tally.levels.insert(0, tally.width as u32);
        }
        for (node, count) in census.answers(question) {
            tally.shift(node, i64::from(count), topology);
        }
        tally
    }

    pub fn counts_node(&self, node: u32) -> bool {
        self.counted.as_ref().is_none_or(|counted| counted.get(node as usize).copied().unwrap_or(false))
    }

    /// Counts in what happened since. `changed` hears of each domain. Says whether that was possible.
    pub fn catch_up(&mut self, topology: &Topology, census: &Census, changed: &mut dyn FnMut(u32)) -> bool {
        let log = census.log(self.question);
        if log.end() == self.seen {
            return true;
        }
        let Some(entries) = log.since(self.seen) else { return false };
        for (node, by) in entries {
            if let Some(domain) = self.shift(*node, i64::from(*by), topology) {
                changed(domain);
            }
        }
        self.seen = log.end();
        true
    }

    /// More or fewer pods on a node. Names the domain if it counts.
    fn shift(&mut self, node: u32, by: i64, topology: &Topology) -> Option<u32> {
        if !self.counts_node(node) {
            return None;
        }
        let moved = |count: u32| u32::try_from(i64::from(count) + by).unwrap_or(0);
        let domain = topology.domain(node, self.key);
        if domain == NONE {
            self.outside = moved(self.outside);
            return Some(NONE);
        }
        let before = self.counts[domain as usize];
        let after = moved(before);
        self.counts[domain as usize] = after;
        self.total = moved(self.total);
        if self.present[domain as usize] {
            if let Some(level) = self.levels.get_mut(&before) {
                *level -= 1;
                if *level == 0 {
                    self.levels.remove(&before);
                }
            }
            *self.levels.entry(after).or_default() += 1;
        }
        Some(domain)
    }

    /// Pods in the domain.
    pub fn count(&self, domain: u32) -> u32 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// Pods in all domains.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Pods outside of all domains.
    pub fn outside(&self) -> u32 {
        self.outside
    }

    /// Domains with a counted node.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The least count of all domains with a counted node.
    pub fn least(&self) -> u32 {
        self.levels.first_key_value().map_or(0, |(least, _)| *least)
    }

    /// The least count if one domain had `by` more.
    pub fn least_with(&self, domain: u32, by: i64) -> i64 {
        let own = i64::from(self.count(domain));
        let others = self.levels.iter().find(|(level, domains)| i64::from(**level) != own || **domains > 1);
        let others = others.map(|(level, _)| i64::from(*level));
        others.map_or(own + by, |others| others.min(own + by))
    }

    /// How many domains have more than that many pods.
    pub fn above(&self, count: u32) -> u32 {
        self.levels.range(count.saturating_add(1)..).map(|(_, domains)| domains).sum()
    }

    /// The least count above zero.
    pub fn least_used(&self) -> u32 {
        self.levels.range(1..).next().map_or(0, |(count, _)| *count)
    }
}
