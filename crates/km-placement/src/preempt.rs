//! Preemption: less important pods make room for one that fits nowhere.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    budget::Budget,
    class::{Class, World},
    engine::{Assigned, Engine},
    fit::Change,
    need::Need,
    place::PendingPod,
    reasons::Refusal,
    slab::Slab,
};

/// Who is to go, and from where. The engine keeps the room for the pod from now on (see [`Engine::nominate`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemption {
    pub node: String,
    /// Ids of the pods to be removed, the most important first.
    pub victims: Vec<String>,
    /// Ids of less important pods whose nomination for the node is void.
    pub outranked: Vec<String>,
}

/// The search ends when so many nodes would do. (Kubernetes looks on up to a tenth of all, if that is more.)
const ENOUGH: usize = 100;

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// A node on which the pod would fit without these.
struct Sacrifice {
    node: u32,
    victims: Vec<u32>,
    violations: usize,
}

impl Engine {
    /// Chooses pods that are to go for a pod that was just refused. The error is what people are told.
    pub fn preempt(&mut self, pod: &PendingPod) -> Result<Preemption, String> {
        self.may_preempt(pod)?;
        let (options, clause) = self.options(pod);
        let best = options.into_iter().min_by_key(|option| self.cost(option)).ok_or(clause)?;
        let node = self.nodes.at(best.node).name.clone();
        let outranked = self.nominees.lower_on(best.node, pod.need.priority);
        for other in &outranked {
            self.nominees.remove(other);
        }
        self.nominate(&pod.id, &pod.need, Some(&node));
        for victim in self.pods.iter_mut().filter(|(at, _)| best.victims.contains(at)).map(|(_, victim)| victim) {
            victim.preempted = true;
        }
        let victims = best.victims.iter().map(|victim| self.pods[*victim].id.to_string()).collect();
        Ok(Preemption { node, victims, outranked })
    }

    /// For each node where preemption would help: who would go. Changes nothing.
    pub fn possible_victims(&mut self, pod: &PendingPod) -> BTreeMap<String, Vec<String>> {
        if self.may_preempt(pod).is_err() {
            return BTreeMap::new();
        }
        let turn = self.turn;
        let (options, _) = self.options(pod);
        self.turn = turn;
        let names = |victims: Vec<u32>| victims.into_iter().map(|victim| self.pods[victim].id.to_string()).collect();
        options.into_iter().map(|option| (self.nodes.at(option.node).name.clone(), names(option.victims))).collect()
    }

    /// A pod waits while those who make room for it are still ending.
    fn may_preempt(&mut self, pod: &PendingPod) -> Result<(), String> {
        if !pod.need.preempts {
            return Err("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let Some(node) = self.nominees.of(&pod.id) else { return Ok(()) };
        let leaving = self.nodes.at(node).pods.iter().map(|at| &self.pods[*at]);
        let waits = leaving.filter(|one| one.preempted).any(|one| one.need.priority < pod.need.priority);
        if waits && self.with_class(&pod.need, |class, world| hopeless(class, node, pod, world).is_none()) {
            return Err("not eligible due to a terminating pod on the nominated node.".to_owned());
        }
        Ok(())
    }

    /// The nodes on which preemption helps, and the words for the others. Costs a look at every node, unless no pod is
    /// less important: then one for all pods with that need, until something changes.
    fn options(&mut self, pod: &PendingPod) -> (Vec<Sacrifice>, String) {
        if !self.has_lesser(pod.need.priority) {
            return (Vec::new(), self.no_victims(pod));
        }
        let all: Vec<u32> = self.nodes.iter().map(|(id, _)| id).collect();
        let start = self.turn.checked_rem(all.len()).unwrap_or(0);
        let (pods, budgets) = (std::mem::take(&mut self.pods), std::mem::take(&mut self.budgets));
        let mut looked_at = 0;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut options = Vec::new();
        self.with_class(&pod.need, |class, world| {
            for node in all[start..].iter().chain(&all[..start]) {
                looked_at += 1;
                let run = DryRun { class, world, pod, node: *node, pods: &pods };
                match run.option(&budgets) {
                    Ok(option) => options.push(option),
                    Err(why) => *counts.entry(why).or_default() += 1,
                }
                if options.len() >= ENOUGH {
                    break;
                }
            }
        });
        self.pods = pods;
        self.budgets = budgets;
        self.turn = start + looked_at;
        (options, clause(all.len(), &counts))
    }

    /// What [`Engine::options`] says where nobody is less important.
    fn no_victims(&mut self, pod: &PendingPod) -> String {
        let told = self.told;
        self.with_class(&pod.need, |class, world| match &class.no_victims {
            Some((at, clause)) if *at == told => clause.to_string(),
            _ => {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for (node, _) in world.nodes.iter() {
                    let why = if hopeless(class, node, pod, world).is_some() { NOT_HELPFUL } else { NO_VICTIMS };
                    *counts.entry(why).or_default() += 1;
                }
                let clause = clause(world.nodes.len(), &counts);
                class.no_victims = Some((told, clause.as_str().into()));
                clause
            }
        })
    }

    /// Which node is best: fewest broken budgets, least important victims, fewest of them, latest started.
    fn cost(&self, option: &Sacrifice) -> (usize, i32, i128, usize, Reverse<i64>) {
        let victims = || option.victims.iter().map(|victim| &self.pods[*victim]);
        let top = victims().map(|victim| victim.need.priority).max().unwrap_or(i32::MIN);
        // Shifted up, so that more victims of negative priority don't look cheaper.
        let sum = victims().map(|victim| i128::from(victim.need.priority) + (1 << 31)).sum();
        let first_start = victims().filter(|victim| victim.need.priority == top).map(|victim| victim.started).min();
        (option.violations, top, sum, option.victims.len(), Reverse(first_start.unwrap_or(i64::MAX)))
    }
}

fn clause(nodes: usize, counts: &BTreeMap<&str, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}

/// Why no removal of pods can help on a node, if so.
fn hopeless(class: &Class, node: u32, pod: &PendingPod, world: World<'_>) -> Option<Refusal> {
    let come = world.nominees.others_on(node, &pod.need, &pod.id);
    let refusal = class.check(node, &come, world).err()?;
    let too_small = matches!(refusal, Refusal::Insufficient(_)) && world.nodes.at(node).too_small_for(&pod.need);
    (!refusal.is_movable() || too_small).then_some(refusal)
}

/// One node looked at without some of its pods.
struct DryRun<'a> {
    class: &'a Class,
    world: World<'a>,
    pod: &'a PendingPod,
    node: u32,
    pods: &'a Slab<Assigned>,
}

impl DryRun<'_> {
    /// Removes all less important pods, and puts back as many as may stay, the most important first; before them those
    /// that a budget guards.
    fn option(&self, budgets: &BTreeMap<String, Budget>) -> Result<Sacrifice, &'static str> {
        if hopeless(self.class, self.node, self.pod, self.world).is_some() {
            return Err(NOT_HELPFUL);
        }
        let here = self.world.nodes.at(self.node).pods.iter().copied();
        let mut gone: Vec<u32> = here.filter(|at| self.pods[*at].need.priority < self.pod.need.priority).collect();
        if gone.is_empty() || !self.fits(&gone) {
            return Err(NO_VICTIMS);
        }
        gone.sort_by_key(|at| self.importance(*at));
        let guarded = self.violating(&gone, budgets);
        let (first, rest): (Vec<u32>, Vec<u32>) = gone.iter().partition(|at| guarded.contains(at));
        for candidate in first.into_iter().chain(rest) {
            let without: Vec<u32> = gone.iter().copied().filter(|at| *at != candidate).collect();
            if self.fits(&without) {
                gone = without;
            }
        }
        let violations = gone.iter().filter(|at| guarded.contains(at)).count();
        Ok(Sacrifice { node: self.node, victims: gone, violations })
    }

    fn importance(&self, at: u32) -> (Reverse<i32>, i64, &str) {
        let pod = &self.pods[at];
        (Reverse(pod.need.priority), pod.started, &pod.id)
    }

    /// Those whose removal, in that order, goes below a budget.
    fn violating(&self, pods: &[u32], budgets: &BTreeMap<String, Budget>) -> Vec<u32> {
        let mut left: Vec<(&Budget, i64)> = budgets.values().map(|budget| (budget, budget.allowed())).collect();
        let mut violates = |at: &u32| {
            let pod = &self.pods[*at];
            let mut below = false;
            for (_, left) in left.iter_mut().filter(|(budget, _)| budget.guards(&pod.id, &pod.need)) {
                *left -= 1;
                below |= *left < 0;
            }
            below
        };
        pods.iter().copied().filter(|at| violates(at)).collect()
    }

    fn fits(&self, gone: &[u32]) -> bool {
        let come = self.world.nominees.others_on(self.node, &self.pod.need, &self.pod.id);
        let leaving: Vec<(&Need, bool)> =
            gone.iter().map(|at| &self.pods[*at]).map(|pod| (&*pod.need, pod.terminating)).collect();
        let change = Change { gone: leaving.iter().map(|(need, _)| *need).collect(), come: come.clone() };
        let node = self.world.nodes.at(self.node);
        node.room(&self.pod.need, &change).is_ok()
            && self.world.storage.judge(self.node, node, &self.pod.need, &change).is_ok()
            && self.class.holds(self.node, &leaving, &come, self.world).is_ok()
    }
}
