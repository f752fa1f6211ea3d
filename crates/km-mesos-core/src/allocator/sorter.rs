//! The sorter of Dominant Resource Fairness: who is next in line for resources.
//!
//! Clients are paths (`a/b/c` for roles, plain ids for frameworks) in a tree. A node's share is the largest fraction
//! of the pool's total that its subtree holds of any one resource, divided by its weight. Siblings are ordered by
//! share, then by how often they were given something, then by path; the tree is listed depth first. A node that is
//! a client and has children competes with them as a virtual leaf of weight 1.

use std::collections::{BTreeMap, BTreeSet};

use km_mesos_proto::resources::Quantities;

/// A client of the sorter, as it stands in its node.
#[derive(Clone, Debug, Default)]
struct Client {
    active: bool,
    held: Quantities,
    /// How often it was allocated to; kept over deactivation, forgotten with the client.
    events: u64,
}

#[derive(Clone, Debug, Default)]
struct Node {
    client: Option<Client>,
    children: BTreeMap<String, Node>,
    /// What the whole subtree holds.
    held: Quantities,
    /// How often anything in the subtree was allocated to.
    events: u64,
}

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct Sorter {
    root: Node,
    /// Weights by path; they may be set before the path has clients. Default 1.
    weights: BTreeMap<String, f64>,
    agents: BTreeMap<String, Quantities>,
    total: Quantities,
    /// Resource names that don't count in shares.
    excluded: BTreeSet<String>,
}

impl Sorter {
    /// A sorter that leaves the given resource names out of the shares.
    pub fn excluding(names: impl IntoIterator<Item = String>) -> Self {
        Self { excluded: names.into_iter().collect(), ..Self::default() }
    }

    /// Adds an agent's resources to the pool (or replaces them).
    pub fn add_agent(&mut self, agent: &str, total: Quantities) {
        self.remove_agent(agent);
        self.total.add_all(&total);
        self.agents.insert(agent.to_owned(), total);
    }

    /// Takes an agent out of the pool. What clients hold of it must be unallocated separately.
    pub fn remove_agent(&mut self, agent: &str) {
        if let Some(total) = self.agents.remove(agent) {
            self.total.subtract_all(&total);
        }
    }

    /// The pool's total.
    pub fn total(&self) -> &Quantities {
        &self.total
    }

    /// Adds a client, inactive. Adding it twice changes nothing.
    pub fn add(&mut self, client: &str) {
        self.root.descend(client).client.get_or_insert_with(Client::default);
    }

    /// Removes a client with all it holds.
    pub fn remove(&mut self, client: &str) {
        let Some(held) = self.client(client).map(|found| found.held.clone()) else { return };
        self.change(client, |node| node.held.subtract_all(&held));
        self.root.forget(client);
    }

    /// Lets a client take part in the order.
    pub fn activate(&mut self, client: &str) {
        self.set_active(client, true);
    }

    /// Leaves a client out of the order; it keeps what it holds, and its place in its parents' shares.
    pub fn deactivate(&mut self, client: &str) {
        self.set_active(client, false);
    }

    /// Whether the path is a client.
    pub fn contains(&self, client: &str) -> bool {
        self.client(client).is_some()
    }

    /// The number of clients.
    pub fn count(&self) -> usize {
        self.root.clients()
    }

    /// Notes that a client was given resources.
    pub fn allocated(&mut self, client: &str, given: &Quantities) {
        self.change(client, |node| {
            node.held.add_all(given);
            node.events += 1;
        });
        self.with_client(client, |found| {
            found.held.add_all(given);
            found.events += 1;
        });
    }

    /// Notes that a client gave resources back.
    pub fn unallocated(&mut self, client: &str, returned: &Quantities) {
        self.change(client, |node| node.held.subtract_all(returned));
        self.with_client(client, |found| found.held.subtract_all(returned));
    }

    /// Notes that what a client holds changed its form or size (RESERVE and the like): no allocation event.
    pub fn replace(&mut self, client: &str, old: &Quantities, new: &Quantities) {
        let swap = |held: &mut Quantities| {
            held.subtract_all(old);
            held.add_all(new);
        };
        self.change(client, |node| swap(&mut node.held));
        self.with_client(client, |found| swap(&mut found.held));
    }

    /// Sets the weight of a path against its siblings.
    pub fn set_weight(&mut self, path: &str, weight: f64) {
        self.weights.insert(path.to_owned(), weight);
    }

    /// The client's dominant share (without weight), 0 to 1.
    pub fn share(&self, client: &str) -> f64 {
        self.client(client).map_or(0.0, |found| self.share_of(&found.held, 1.0))
    }

    /// All active clients, the one with the smallest share first.
    pub fn sort(&self) -> Vec<String> {
        let mut order = Vec::new();
        self.list(&self.root, "", &mut order);
        order
    }

    fn list(&self, node: &Node, path: &str, order: &mut Vec<String>) {
        let mut rivals: Vec<(f64, u64, String, Option<&Node>)> = node
            .children
            .iter()
            .map(|(name, child)| {
                let child_path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                let weight = self.weights.get(&child_path).copied().unwrap_or(1.0);
                (self.share_of(&child.held, weight), child.events, child_path, Some(child))
            })
            .collect();
        if let Some(client) = &node.client {
            // The virtual leaf sorts by its path `parent/.`, so before all its siblings in a tie.
            rivals.push((self.share_of(&client.held, 1.0), client.events, format!("{path}/."), None));
        }
        rivals.sort_by(|left, right| {
            left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)).then_with(|| left.2.cmp(&right.2))
        });
        for (_, _, rival_path, rival) in rivals {
            match rival {
                Some(child) if !child.children.is_empty() => self.list(child, &rival_path, order),
                Some(leaf) if leaf.is_active() => order.push(rival_path),
                None if node.is_active() => order.push(path.to_owned()),
                Some(_) | None => {}
            }
        }
    }

    fn share_of(&self, held: &Quantities, weight: f64) -> f64 {
        let counted = self.total.iter().filter(|(name, total)| !total.is_zero() && !self.excluded.contains(*name));
        // Divided as whole units in f64, as Mesos does: equal fractions must round the same way.
        let shares = counted.map(|(name, total)| held.get(name).to_f64() / total.to_f64());
        shares.fold(0.0, f64::max) / weight
    }

    fn client(&self, path: &str) -> Option<&Client> {
        let mut node = &self.root;
        for name in path.split('/') {
            node = node.children.get(name)?;
        }
        node.client.as_ref()
    }

    fn set_active(&mut self, client: &str, active: bool) {
        self.with_client(client, |found| found.active = active);
    }

    fn with_client(&mut self, path: &str, change: impl FnOnce(&mut Client)) {
        let mut node = &mut self.root;
        for name in path.split('/') {
            match node.children.get_mut(name) {
                Some(child) => node = child,
                None => return,
            }
        }
        if let Some(client) = &mut node.client {
            change(client);
        }
    }

    /// Applies a change to every node from the root's child down to the client's own. Unknown clients are left alone.
    fn change(&mut self, path: &str, mut change: impl FnMut(&mut Node)) {
        if !self.contains(path) {
            return;
        }
        let mut node = &mut self.root;
        for name in path.split('/') {
            match node.children.get_mut(name) {
                Some(child) => node = child,
                None => return,
            }
            change(node);
        }
    }
}

impl Node {
    fn is_active(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.active)
    }

    fn descend(&mut self, path: &str) -> &mut Node {
        path.split('/').fold(self, |node, name| node.children.entry(name.to_owned()).or_default())
    }

    fn forget(&mut self, path: &str) {
        let (name, rest) = path.split_once('/').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let Some(child) = self.children.get_mut(name) else { return };
        match rest {
            Some(rest) => child.forget(rest),
            None => child.client = None,
        }
        if child.client.is_none() && child.children.is_empty() {
            self.children.remove(name);
        }
    }

    fn clients(&self) -> usize {
        usize::from(self.client.is_some()) + self.children.values().map(Node::clients).sum::<usize>()
    }
}
