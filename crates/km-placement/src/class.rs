//! Pods with equal needs share one class, and with it the work of filtering.
//!
//! A class knows which nodes fit, best first, and follows the logs of what changed since it was last used. Nodes that
//! rules about zones and the like can't tell apart are a cell; a cell is open or closed as a whole, so that one pod
//! that fills a zone costs one step, not one for each node of it. Rules about single hosts are looked at node by node.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    census::{Census, Question},
    contest,
    fit::Change,
    need::Need,
    nodes::Nodes,
    nominees::Nominees,
    reasons::{Refusal, Summary},
    rules::Rules,
    strategy::Chooser,
    volumes::Storage,
};

/// What classes look at.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub nodes: &'a Nodes,
    pub census: &'a Census,
    pub nominees: &'a Nominees,
    pub storage: &'a Storage,
    pub chooser: &'a dyn Chooser,
    pub comparisons: bool,
}

/// Where a node stands among those that fit: lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// How little it is wished for.
    points: i64,
    /// Pods of the same owner on it.
    mates: u32,
    rank: i64,
    node: u32,
}

/// What the class knows of a node.
#[derive(Clone, Copy, Default)]
struct Local {
    /// Whether it passes the rules that don't depend on other pods.
    accepted: bool,
    /// Points of preferences that don't depend on other pods.
    points: i64,
    mates: u32,
    /// Under which it is in `ranked`, when there is room.
    rank: Option<Rank>,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    open: bool,
    points: i64,
    /// Its best node, with the cell's points: what is in `front` if it is open.
    head: Option<Rank>,
}

/// The instances of the same owner.
struct Mates {
    question: u32,
    seen: usize,
}

/// The nodes that fit pods with that need.
pub(crate) struct Class {
    pub need: Arc<Need>,
    pub rules: Rules,
    mates: Option<Mates>,
    local: Vec<Local>,
    cells: Vec<Cell>,
    ranked: BTreeSet<(u32, Rank)>,
    front: BTreeSet<Rank>,
    seen: usize,
    /// When it was last used.
    pub used: u64,
    /// As of when storage was looked at, if the pods have claims.
    storage_era: u64,
    /// Why nothing fits, as of that state of the world.
    pub refusal: Option<(u64, Arc<Summary>)>,
    /// Why preemption doesn't help where no pod is less important, as of that state of the world.
    pub no_victims: Option<(u64, Arc<str>)>,
}

impl Class {
    /// Filters all nodes.
    pub fn new(
        need: &Arc<Need>,
        nodes: &Nodes,
        census: &mut Census,
        (nominees, storage, chooser, comparisons): (&Nominees, &Storage, &dyn Chooser, bool),
    ) -> Self {
        let rules = Rules::new(need, nodes, census, comparisons);
        let owner = need.owner.as_ref().filter(|_| chooser.minds_wishes());
        let mates = owner.map(|owner| {
            let namespace = need.namespace.clone();
            let question = census.ask(Question::Owned { namespace, owner: owner.clone() });
            Mates { question, seen: census.log(question).end() }
        });
        let mut class = Self {
            need: Arc::clone(need),
            cells: vec![Cell::default(); rules.topology.cell_count()],
            rules,
            mates,
            local: Vec::new(),
            ranked: BTreeSet::new(),
            front: BTreeSet::new(),
            seen: nodes.log.end(),
            used: 0,
            refusal: None,
            no_victims: None,
            storage_era: storage.era,
        };
        let world = World { nodes, census, nominees, storage, chooser, comparisons };
        class.local.resize(nodes.bound(), Local::default());
        if let Some(mates) = &class.mates {
            for (node, count) in census.answers(mates.question) {
                class.local[node as usize].mates += count;
            }
        }
        for node in 0..nodes.bound() as u32 {
            class.look_at_facts(node, world);
            class.local[node as usize].rank = class.rank(node, world);
        }
        let ranks = class.local.iter().filter_map(|local| local.rank);
        class.ranked = ranks.map(|rank| (class.rules.topology.cell(rank.node), rank)).collect();
        for cell in 0..class.cells.len() as u32 {
            class.judge_cell(cell, world);
            class.find_head(cell);
        }
        class
    }

    /// Gives the questions back.
    pub fn end(self, census: &mut Census) {
        if let Some(mates) = &self.mates {
            census.forget(mates.question);
        }
        self.rules.end(census);
    }

    /// Takes in what happened since the last time. Says whether that was possible; otherwise it must be made anew.
    pub fn catch_up(&mut self, world: World<'_>) -> bool {
        if !self.need.claims.is_empty() && self.storage_era != world.storage.era {
            return false;
        }
        if !self.rules.stand(&self.need, world.nodes, world.census) {
            return false;
        }
        self.rules.saw_bonds(world.census);
        if !self.count_mates(world) || !self.count_others(world) {
            return false;
        }
        let Some(touched) = world.nodes.log.since(self.seen) else { return false };
        self.seen = world.nodes.log.end();
        let mut nodes: Vec<u32> = touched.iter().map(|touched| touched.node).collect();
        for touched in touched.iter().filter(|touched| touched.facts) {
            self.look_at_facts(touched.node, world);
        }
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            self.refresh(node, world);
        }
        true
    }

    fn count_mates(&mut self, world: World<'_>) -> bool {
        let Some(mates) = &mut self.mates else { return true };
        let log = world.census.log(mates.question);
        let Some(entries) = log.since(mates.seen) else { return false };
        mates.seen = log.end();
        for (node, by) in entries {
            if let Some(local) = self.local.get_mut(*node as usize) {
                local.mates = local.mates.saturating_add_signed(*by);
            }
        }
        true
    }

    /// Follows the counts of the rules, and opens and closes cells and nodes.
    fn count_others(&mut self, world: World<'_>) -> bool {
        if self.rules.tallies.is_empty() {
            return true;
        }
        let outlook = (self.rules.outlook(false), self.rules.outlook(true));
        let mut dirty: (Vec<u32>, Vec<u32>) = Default::default();
        let Rules { tallies, topology, .. } = &mut self.rules;
        for tally in tallies {
            let (key, fine) = (tally.key, topology.is_fine(tally.key));
            let dirty = if fine { &mut dirty.1 } else { &mut dirty.0 };
            let mut mark = |domain: u32| dirty.extend_from_slice(topology.members(key, domain));
            if !tally.catch_up(topology, world.census, &mut mark) {
                return false;
            }
        }
        if self.rules.outlook(false) != outlook.0 {
            dirty.0 = (0..self.cells.len() as u32).collect();
        }
        if self.rules.outlook(true) != outlook.1 {
            dirty.1 = (0..self.local.len() as u32).collect();
        }
        dirty.0.into_iter().for_each(|cell| self.judge_cell(cell, world));
        dirty.1.into_iter().for_each(|node| self.refresh(node, world));
        true
    }

    /// The number of instances that the owner wants is another one.
    pub fn set_instances(&mut self, instances: u32, world: World<'_>) {
        if self.rules.instances != instances {
            self.rules.instances = instances;
            (0..self.cells.len() as u32).for_each(|cell| self.judge_cell(cell, world));
            (0..self.local.len() as u32).for_each(|node| self.refresh(node, world));
        }
    }

    fn judge_cell(&mut self, cell: u32, world: World<'_>) {
        let example = match self.rules.topology.is_flat() {
            true => None,
            false => self.rules.topology.example(cell),
        };
        let open = example.is_none_or(|node| self.rules.admits(node, false));
        let points = match example {
            Some(node) if world.chooser.minds_wishes() => self.rules.points(node, false),
            _ => 0,
        };
        let known = &mut self.cells[cell as usize];
        if (known.open, known.points) != (open, points) {
            if let Some(head) = known.head.filter(|_| known.open) {
                self.front.remove(&head);
            }
            known.open = open;
            known.points = points;
            self.find_head(cell);
        }
    }

    /// Looks for the best node of a cell.
    fn find_head(&mut self, cell: u32) {
        let mut mine = self.ranked.range((cell, LOWEST)..=(cell, HIGHEST));
        let best = mine.next().map(|(_, rank)| *rank);
        let known = &mut self.cells[cell as usize];
        let head = best.map(|rank| Rank { points: rank.points + known.points, ..rank });
        if let Some(old) = known.head.filter(|old| known.open && Some(*old) != head) {
            self.front.remove(&old);
        }
        known.head = head;
        if let Some(new) = head.filter(|_| known.open) {
            self.front.insert(new);
        }
    }

    fn look_at_facts(&mut self, node: u32, world: World<'_>) {
        if self.local.len() <= node as usize {
            self.local.resize(node as usize + 1, Local::default());
        }
        let Some(facts) = world.nodes.get(node) else {
            self.local[node as usize].accepted = false;
            return;
        };
        let local = &mut self.local[node as usize];
        local.accepted = facts.accepts(&self.need, world.comparisons).is_ok();
        local.points = 0;
        if local.accepted && world.chooser.minds_wishes() {
            let disliked = self.need.disliked_taints(&facts.facts.taints, world.comparisons);
            local.points = 100 * disliked - self.need.preference(&facts.name, &facts.facts.labels);
        }
    }

    /// Looks again at whether a node has room, and where it stands.
    fn refresh(&mut self, node: u32, world: World<'_>) {
        let rank = self.rank(node, world);
        self.set_rank(node, rank);
    }

    fn rank(&self, node: u32, world: World<'_>) -> Option<Rank> {
        let local = self.local[node as usize];
        let known = world.nodes.get(node).filter(|_| local.accepted)?;
        let come = world.nominees.on(node, &self.need);
        let change = Change { come, ..Change::default() };
        known.room(&self.need, &change).ok()?;
        world.storage.judge(node, known, &self.need, &change).ok()?;
        let mut points = local.points;
        if !self.rules.tallies.is_empty() {
            if !self.rules.admits(node, true) {
                return None;
            }
            if world.chooser.minds_wishes() {
                points += self.rules.points(node, true);
            }
        }
        Some(Rank { points, mates: local.mates, rank: world.chooser.rank(&known.candidate()), node })
    }

    fn set_rank(&mut self, node: u32, rank: Option<Rank>) {
        let cell = self.rules.topology.cell(node);
        let old = std::mem::replace(&mut self.local[node as usize].rank, rank);
        if old == rank {
            return;
        }
        if let Some(old) = old {
            self.ranked.remove(&(cell, old));
        }
        if let Some(new) = rank {
            self.ranked.insert((cell, new));
        }
        self.find_head(cell);
    }

    /// The best node. Where pods are nominated, the rules must hold with them, too.
    pub fn best(&mut self, world: World<'_>) -> Option<u32> {
        let mut passed_over = Vec::new();
        let best = loop {
            let Some(node) = self.first(world) else { break None };
            let come = world.nominees.on(node, &self.need);
            if come.is_empty() || self.holds(node, &[], &come, world).is_ok() {
                break Some(node);
            }
            passed_over.push(node);
            self.set_rank(node, None);
        };
        for node in passed_over {
            self.refresh(node, world);
        }
        best
    }

    fn first(&self, world: World<'_>) -> Option<u32> {
        if !world.chooser.compares() {
            return self.front.first().map(|rank| rank.node);
        }
        let fitting = self.fitting();
        let contest = contest::of(&self.need, &self.rules, &fitting, world);
        fitting.get(world.chooser.choose(&contest)?).copied()
    }

    /// All nodes that fit, by number.
    pub fn fitting(&self) -> Vec<u32> {
        let open = |node: &u32| self.cells[self.rules.topology.cell(*node) as usize].open;
        let roomy = (0..self.local.len() as u32).filter(|node| self.local[*node as usize].rank.is_some());
        roomy.filter(open).collect()
    }

    /// Whether the rules about other pods hold when some go and some come.
    pub fn holds(&self, node: u32, gone: &[(&Need, bool)], come: &[&Need], world: World<'_>) -> Result<(), Refusal> {
        if gone.is_empty() && come.is_empty() {
            return self.rules.judge(node, None);
        }
        let shift = self.rules.shift(node, gone, come, world.census);
        self.rules.judge(node, Some(&shift))
    }

    /// Why a node refuses the pods of this class, and in which pool it takes them if it does.
    pub fn check(&self, node: u32, come: &[&Need], world: World<'_>) -> Result<usize, Refusal> {
        let known = world.nodes.at(node);
        world.storage.usable(&self.need)?;
        known.accepts(&self.need, world.comparisons)?;
        let change = Change { come: come.to_vec(), ..Change::default() };
        let pool = known.room(&self.need, &change)?;
        world.storage.judge(node, known, &self.need, &change)?;
        self.holds(node, &[], come, world)?;
        Ok(pool)
    }
}

const LOWEST: Rank = Rank { points: i64::MIN, mates: 0, rank: i64::MIN, node: 0 };
const HIGHEST: Rank = Rank { points: i64::MAX, mates: u32::MAX, rank: i64::MAX, node: u32::MAX };
