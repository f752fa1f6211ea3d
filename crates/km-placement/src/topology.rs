//! Domains of nodes: those with the same value of a label or field.

use crate::{constraint::Field, fit::Node, hash::Map, nodes::Nodes};

/// The number of no domain: the node lacks the label.
pub(crate) const NONE: u32 = u32::MAX;

/// What makes domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Label(String),
    Field(Field),
}

impl Key {
    fn of(&self, node: &Node) -> Option<String> {
        match self {
            Self::Label(key) => node.facts.labels.get(key).cloned(),
            Self::Field(field) => field.of(&node.name, &node.facts).map(|value| value.as_str().to_owned()),
        }
    }
}

/// The domains of all nodes for some keys.
///
/// A key whose domains hold few nodes each, like the host name, is fine; the others, like the zone, are coarse. Nodes
/// that are in the same domain of every coarse key are one cell: rules about coarse keys can't tell them apart.
#[derive(Default)]
pub(crate) struct Topology {
    keys: Vec<Key>,
    /// How many domains each key has.
    sizes: Vec<usize>,
    fine: Vec<bool>,
    /// The domains of each node, key by key.
    domains: Vec<u32>,
    /// The cell of each node.
    cells: Vec<u32>,
    /// One node of each cell.
    examples: Vec<u32>,
    /// By key and domain: the cells of a coarse one, the nodes of a fine one.
    members: Vec<Vec<Vec<u32>>>,
}

/// A key with fewer nodes than this in the average domain is fine.
const FEW: usize = 4;

impl Topology {
    /// The number of a key; keys are to be known before [`Topology::measure`].
    pub fn key(&mut self, key: Key) -> usize {
        self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    /// The label of a key; empty for other fields.
    pub fn label(&self, key: usize) -> &str {
        match &self.keys[key] {
            Key::Label(label) => label,
            Key::Field(_) => "",
        }
    }

    /// Whether there is no key at all.
    pub fn is_flat(&self) -> bool {
        self.keys.is_empty()
    }

    /// Finds the domains and cells of all nodes.
    pub fn measure(&mut self, nodes: &Nodes) {
        let width = self.keys.len();
        self.domains = vec![NONE; nodes.bound() * width];
        self.sizes = vec![0; width];
        for (at, key) in self.keys.iter().enumerate() {
            let mut known: Map<String, u32> = Map::default();
            for (id, node) in nodes.iter() {
                let Some(value) = key.of(node) else { continue };
                let next = known.len() as u32;
                self.domains[id as usize * width + at] = *known.entry(value).or_insert(next);
            }
            self.sizes[at] = known.len();
        }
        self.fine = self.sizes.iter().map(|size| size * FEW > nodes.len()).collect();
        self.members = self.sizes.iter().map(|size| vec![Vec::new(); *size]).collect();
        self.find_cells(nodes);
    }

    fn find_cells(&mut self, nodes: &Nodes) {
        let width = self.keys.len();
        self.cells = vec![0; nodes.bound()];
        self.examples.clear();
        let mut known: Map<Vec<u32>, u32> = Map::default();
        for (id, _) in nodes.iter() {
            let domains = &self.domains[id as usize * width..][..width];
            let coarse: Vec<u32> =
                domains.iter().zip(&self.fine).filter(|(_, fine)| !**fine).map(|(domain, _)| *domain).collect();
            let next = self.examples.len() as u32;
            let cell = *known.entry(coarse).or_insert(next);
            self.cells[id as usize] = cell;
            let new = cell == next;
            if new {
                self.examples.push(id);
            }
            for (at, domain) in domains.iter().enumerate().filter(|(_, domain)| **domain != NONE) {
                let members = &mut self.members[at][*domain as usize];
                match self.fine[at] {
                    true => members.push(id),
                    false if new => members.push(cell),
                    false => {}
                }
            }
        }
    }

    pub fn domain(&self, node: u32, key: usize) -> u32 {
        let at = node as usize * self.keys.len() + key;
        self.domains.get(at).copied().unwrap_or(NONE)
    }

    pub fn size(&self, key: usize) -> usize {
        self.sizes[key]
    }

    pub fn is_fine(&self, key: usize) -> bool {
        self.fine[key]
    }

    pub fn cell(&self, node: u32) -> u32 {
        self.cells.get(node as usize).copied().unwrap_or(0)
    }

    /// At least one, even without nodes.
    pub fn cell_count(&self) -> usize {
        self.examples.len().max(1)
    }

    /// A node of the cell; none when there are no nodes.
    pub fn example(&self, cell: u32) -> Option<u32> {
        self.examples.get(cell as usize).copied()
    }

    /// The cells (of a coarse key) or nodes (of a fine one) of a domain.
    pub fn members(&self, key: usize, domain: u32) -> &[u32] {
        self.members[key].get(domain as usize).map_or(&[], Vec::as_slice)
    }
}
