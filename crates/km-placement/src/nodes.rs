//! All nodes, by number and name, with a log of their changes.

use std::collections::BTreeMap;

use crate::{fit::Node, log::Log, slab::Slab};

/// What happened to a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub node: u32,
    /// Its facts changed, not only what it offers or who is there.
    pub facts: bool,
}

/// The nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    slab: Slab<Node>,
    by_name: BTreeMap<String, u32>,
    pub log: Log<Touched>,
    /// Grows when a node comes, goes, or changes its facts: domains may be others then.
    pub shape: u64,
}

impl Nodes {
    /// The number of a node, new when it isn't known.
    pub fn learn(&mut self, name: &str) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.slab.insert(Node { name: name.to_owned(), ..Node::default() });
        self.by_name.insert(name.to_owned(), id);
        self.touch(id, true);
        id
    }

    pub fn forget(&mut self, id: u32) {
        if let Some(node) = self.slab.remove(id) {
            self.by_name.remove(&node.name);
            self.touch(id, true);
        }
    }

    pub fn touch(&mut self, node: u32, facts: bool) {
        self.log.push(Touched { node, facts });
        self.shape += u64::from(facts);
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: u32) -> Option<&Node> {
        self.slab.get(id)
    }

    /// A node that is known to be there.
    pub fn at(&self, id: u32) -> &Node {
        &self.slab[id]
    }

    pub fn at_mut(&mut self, id: u32) -> &mut Node {
        &mut self.slab[id]
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Node)> {
        self.slab.iter()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// One more than the highest number, about.
    pub fn bound(&self) -> usize {
        self.slab.bound()
    }
}
