//! Who runs where, counted by what rules ask about.
//!
//! Pods with equal needs are one group. A rule asks a [`Question`] about pods; it is answered once per group, not once
//! per pod, and each pod that comes or goes is written into the logs of the questions that are about it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    hash::Map,
    log::Log,
    need::{Bond, NamespaceLabels, Need, PodSelector},
    slab::Slab,
};

/// Which pods are to be counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// Those that all of these select; `living` leaves out pods that are being deleted.
    Selected { selectors: Vec<PodSelector>, living: bool },
    /// Those that have this wish.
    Bearing(Bond),
    /// The instances of an owner.
    Owned { namespace: String, owner: String },
}

/// Pods with equal needs in the same state.
struct Group {
    need: Arc<Need>,
    terminating: bool,
    bonds: Vec<Bond>,
    members: u32,
    /// Members by node.
    on: BTreeMap<u32, u32>,
    /// Questions that are about them.
    questions: Vec<u32>,
}

/// A question that somebody asks.
struct Asked {
    question: Question,
    askers: u32,
    /// Nodes where a pod came (1) or went (-1).
    log: Log<(u32, i32)>,
}

/// All pods that have a node.
#[derive(Default)]
pub(crate) struct Census {
    namespaces: NamespaceLabels,
    /// Grows when answers change without a pod coming or going.
    pub era: u64,
    groups: Slab<Group>,
    by_need: Map<(usize, bool), u32>,
    asked: Slab<Asked>,
    by_question: Map<Question, u32>,
    /// The wishes of running pods, with the number of groups that have them.
    bonds: Slab<(Bond, u32)>,
    by_bond: Map<Bond, u32>,
    /// Wishes that no running pod had before.
    pub new_bonds: Log<Bond>,
}

impl Census {
    /// A pod is on a node.
    pub fn add(&mut self, need: &Arc<Need>, terminating: bool, node: u32) {
        let id = self.group(need, terminating);
        let group = &mut self.groups[id];
        group.members += 1;
        *group.on.entry(node).or_default() += 1;
        for question in &group.questions {
            self.asked[*question].log.push((node, 1));
        }
    }

    /// A pod that was added is gone.
    pub fn remove(&mut self, need: &Arc<Need>, terminating: bool, node: u32) {
        let Some(id) = self.by_need.get(&(address(need), terminating)).copied() else { return };
        let group = &mut self.groups[id];
        group.members -= 1;
        if let Some(count) = group.on.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                group.on.remove(&node);
            }
        }
        for question in &group.questions {
            self.asked[*question].log.push((node, -1));
        }
        if group.members == 0 {
            self.disband(id);
        }
    }

    fn group(&mut self, need: &Arc<Need>, terminating: bool) -> u32 {
        let key = (address(need), terminating);
        if let Some(id) = self.by_need.get(&key) {
            return *id;
        }
        let bonds: Vec<Bond> = need.bonds().collect();
        for bond in &bonds {
            self.learn_bond(bond);
        }
        let about = |asked: &Asked| matches(&asked.question, need, terminating, &bonds, &self.namespaces);
        let questions = self.asked.iter().filter(|(_, asked)| about(asked)).map(|(id, _)| id).collect();
        let on = BTreeMap::new();
        let group = Group { need: Arc::clone(need), terminating, bonds, members: 0, on, questions };
        let id = self.groups.insert(group);
        self.by_need.insert(key, id);
        id
    }

    fn disband(&mut self, id: u32) {
        let Some(group) = self.groups.remove(id) else { return };
        self.by_need.remove(&(address(&group.need), group.terminating));
        for bond in &group.bonds {
            let Some(at) = self.by_bond.get(bond).copied() else { continue };
            self.bonds[at].1 -= 1;
            if self.bonds[at].1 == 0 {
                self.bonds.remove(at);
                self.by_bond.remove(bond);
            }
        }
    }

    fn learn_bond(&mut self, bond: &Bond) {
        match self.by_bond.get(bond) {
            Some(at) => self.bonds[*at].1 += 1,
            None => {
                let at = self.bonds.insert((bond.clone(), 1));
                self.by_bond.insert(bond.clone(), at);
                self.new_bonds.push(bond.clone());
            }
        }
    }

    /// The wishes of running pods that are about a pod with that need.
    pub fn bonds_about(&self, need: &Need) -> Vec<Bond> {
        let about = |bond: &&Bond| self.is_about(bond, need);
        self.bonds.iter().map(|(_, (bond, _))| bond).filter(about).cloned().collect()
    }

    pub fn is_about(&self, bond: &Bond, need: &Need) -> bool {
        bond.term.pods.matches(need, &self.namespaces)
    }

    /// Starts counting; each call needs a [`Census::forget`].
    pub fn ask(&mut self, question: Question) -> u32 {
        if let Some(id) = self.by_question.get(&question) {
            self.asked[*id].askers += 1;
            return *id;
        }
        let id = self.asked.insert(Asked { question: question.clone(), askers: 1, log: Log::default() });
        for (_, group) in self.groups.iter_mut() {
            if matches(&question, &group.need, group.terminating, &group.bonds, &self.namespaces) {
                group.questions.push(id);
            }
        }
        self.by_question.insert(question, id);
        id
    }

    pub fn forget(&mut self, id: u32) {
        self.asked[id].askers -= 1;
        if self.asked[id].askers > 0 {
            return;
        }
        if let Some(asked) = self.asked.remove(id) {
            self.by_question.remove(&asked.question);
        }
        for (_, group) in self.groups.iter_mut() {
            group.questions.retain(|question| *question != id);
        }
    }

    /// How many pods there are for the question, by node; a node may come several times.
    pub fn answers(&self, id: u32) -> impl Iterator<Item = (u32, u32)> {
        let about = move |group: &&Group| group.questions.contains(&id);
        let groups = self.groups.iter().map(|(_, group)| group).filter(about);
        groups.flat_map(|group| group.on.iter().map(|(node, count)| (*node, *count)))
    }

    pub fn log(&self, id: u32) -> &Log<(u32, i32)> {
        &self.asked[id].log
    }

    /// Whether the question would count a pod with that need.
    pub fn would_count(&self, id: u32, need: &Need, terminating: bool) -> bool {
        let question = &self.asked[id].question;
        let bonds: Vec<Bond> = match question {
            Question::Bearing(_) => need.bonds().collect(),
            _ => Vec::new(),
        };
        matches(question, need, terminating, &bonds, &self.namespaces)
    }

    /// Sets or (with none) forgets a namespace's labels.
    pub fn set_namespace(&mut self, name: &str, labels: Option<BTreeMap<String, String>>) {
        let labels = labels.filter(|labels| !labels.is_empty());
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
        self.era += 1;
        for (_, group) in self.groups.iter_mut() {
            let about = |asked: &Asked| {
                matches(&asked.question, &group.need, group.terminating, &group.bonds, &self.namespaces)
            };
            group.questions = self.asked.iter().filter(|(_, asked)| about(asked)).map(|(id, _)| id).collect();
        }
    }
}

/// Shared needs are told apart by their address.
fn address(need: &Arc<Need>) -> usize {
    Arc::as_ptr(need).addr()
}

fn matches(question: &Question, need: &Need, terminating: bool, bonds: &[Bond], known: &NamespaceLabels) -> bool {
    match question {
        Question::Selected { selectors, living } => {
            let selected = |selector: &PodSelector| selector.matches(need, known);
            !(*living && terminating) && selectors.iter().all(selected)
        }
        Question::Bearing(bond) => bonds.contains(bond),
        Question::Owned { namespace, owner } => need.owner.as_ref() == Some(owner) && need.namespace == *namespace,
    }
}
