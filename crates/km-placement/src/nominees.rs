//! Pods that wait for a node on which others were removed for them.

use std::{collections::BTreeMap, sync::Arc};

use crate::need::Need;

/// Who is nominated where. Few at any time.
#[derive(Default)]
pub(crate) struct Nominees {
    by_node: BTreeMap<u32, Vec<(String, Arc<Need>)>>,
    by_pod: BTreeMap<String, u32>,
}

impl Nominees {
    pub fn add(&mut self, pod: &str, need: &Arc<Need>, node: u32) {
        self.by_pod.insert(pod.to_owned(), node);
        self.by_node.entry(node).or_default().push((pod.to_owned(), Arc::clone(need)));
    }

    /// Names the node where the pod was nominated.
    pub fn remove(&mut self, pod: &str) -> Option<u32> {
        let node = self.by_pod.remove(pod)?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|(other, _)| other != pod);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    pub fn of(&self, pod: &str) -> Option<u32> {
        self.by_pod.get(pod).copied()
    }

    /// Those for whom room is kept on a node against a pod with that need: the equally or more important.
    pub fn on(&self, node: u32, need: &Need) -> Vec<&Need> {
        self.others_on(node, need, "")
    }

    /// The same without one pod.
    pub fn others_on(&self, node: u32, need: &Need, pod: &str) -> Vec<&Need> {
        if self.by_node.is_empty() {
            return Vec::new();
        }
        let there = self.by_node.get(&node).into_iter().flatten();
        let first = there.filter(|(other, nominee)| nominee.priority >= need.priority && other != pod);
        first.map(|(_, nominee)| nominee.as_ref()).collect()
    }

    /// Pods nominated to a node that are less important.
    pub fn lower_on(&self, node: u32, priority: i32) -> Vec<String> {
        let there = self.by_node.get(&node).into_iter().flatten();
        there.filter(|(_, need)| need.priority < priority).map(|(pod, _)| pod.clone()).collect()
    }

    /// All on a node.
    pub fn all_on(&self, node: u32) -> Vec<String> {
        self.by_node.get(&node).into_iter().flatten().map(|(pod, _)| pod.clone()).collect()
    }
}
