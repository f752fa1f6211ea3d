//! Pods whose node placement doesn't know: they are told of once it does.

use std::collections::{BTreeMap, BTreeSet};

use km_podtask::PodKey;

/// Pods by the node that they are on, or will be.
#[derive(Default)]
pub(super) struct Homeless {
    by_node: BTreeMap<String, BTreeSet<PodKey>>,
    nodes: BTreeMap<PodKey, String>,
}

impl Homeless {
    /// The pod is on that unknown node; with none it is anywhere else.
    pub fn set(&mut self, key: &PodKey, node: Option<&str>) {
        if self.nodes.get(key).map(String::as_str) == node {
            return;
        }
        if let Some(old) = self.nodes.remove(key)
            && let Some(pods) = self.by_node.get_mut(&old)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(&old);
            }
        }
        if let Some(node) = node {
            self.nodes.insert(key.clone(), node.to_owned());
            self.by_node.entry(node.to_owned()).or_default().insert(key.clone());
        }
    }

    /// The node is known now: its pods.
    pub fn take(&mut self, node: &str) -> BTreeSet<PodKey> {
        let pods = self.by_node.remove(node).unwrap_or_default();
        pods.iter().for_each(|key| _ = self.nodes.remove(key));
        pods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_without_one_node_at_most_and_nothing_is_kept_of_those_that_are_taken() {
        let (a, b) = (PodKey::new("n", "a"), PodKey::new("n", "b"));
        let mut homeless = Homeless::default();
        for (key, node) in [(&a, Some("x")), (&b, Some("x")), (&a, Some("y")), (&b, Some("x")), (&a, Some("y"))] {
            homeless.set(key, node);
        }
        assert_eq!(homeless.take("x"), BTreeSet::from([b.clone()]));
        assert_eq!(homeless.take("x"), BTreeSet::new());
        homeless.set(&b, Some("y"));
        homeless.set(&a, None);
        assert_eq!(homeless.take("y"), BTreeSet::from([b]));
        assert!(homeless.by_node.is_empty() && homeless.nodes.is_empty());
    }
}
