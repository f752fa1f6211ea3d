//! Rules about where other pods are: spread, affinity, anti-affinity of both sides, constraints.

use crate::{
    census::{Census, Question},
    constraint::{Constraint, Placed},
    need::{Bond, BondKind, Need, PodSelector, Spread},
    nodes::Nodes,
    reasons::Refusal,
    tally::Tally,
    topology::{Key, NONE, Topology},
};

/// A rule that closes nodes.
enum Rule {
    Spread {
        tally: usize,
        max_skew: i64,
        min_domains: usize,
        own: i64,
    },
    /// Required affinity: one tally a term. `own`: the pod is what it looks for itself.
    Near {
        tallies: Vec<usize>,
        own: bool,
    },
    Apart {
        tally: usize,
    },
    /// Required anti-affinity of running pods.
    Repelled {
        tally: usize,
    },
    Constraint {
        tally: usize,
        constraint: Constraint,
    },
}

impl Rule {
    fn tallies(&self) -> &[usize] {
        match self {
            Self::Near { tallies, .. } => tallies,
            Self::Spread { tally, .. }
            | Self::Apart { tally }
            | Self::Repelled { tally }
            | Self::Constraint { tally, .. } => std::slice::from_ref(tally),
        }
    }
}

/// What makes nodes liked or disliked by the pods that are near.
pub(crate) struct Wish {
    pub tally: usize,
    pub kind: WishKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WishKind {
    /// Points for each pod.
    Weight(i32),
    /// A soft spread constraint with its skew, and whether nodes without the label are fine.
    Spread { max_skew: i64, lenient: bool },
}

/// Points that the project's own strategies take off for each pod in the domain of a soft spread constraint.
const SPREAD_POINTS: i64 = 100;
/// Points for the lack of the label of a soft spread constraint.
const NO_DOMAIN_POINTS: i64 = 1_000_000;

/// All rules of pods with one need.
pub(crate) struct Rules {
    pub topology: Topology,
    pub tallies: Vec<Tally>,
    rules: Vec<Rule>,
    pub wishes: Vec<Wish>,
    pub instances: u32,
    era: u64,
    shape: u64,
    bonds_seen: usize,
}

/// How the counts of tallies differ on one node from what they are: pods thought away or added.
pub(crate) type Shift<'a> = Option<&'a [i64]>;

impl Rules {
    pub fn new(need: &Need, nodes: &Nodes, census: &mut Census, comparisons: bool) -> Self {
        let mut plan = Planner::default();
        for spread in need.spread.iter().filter(|spread| spread.hard) {
            let tally = plan.spread(spread);
            let Spread { max_skew, min_domains, own, .. } = *spread;
            plan.rules.push(Rule::Spread { tally, max_skew, min_domains, own });
        }
        if !need.near.is_empty() {
            let selectors: Vec<PodSelector> = need.near.iter().map(|term| term.pods.clone()).collect();
            let near = need.near.iter().map(|term| plan.count(&term.key, selected(selectors.clone()))).collect();
            // The pod's own labels, as they will be once it runs.
            let own = {
                let question = census.ask(selected(selectors));
                let own = census.would_count(question, need, false);
                census.forget(question);
                own
            };
            plan.rules.push(Rule::Near { tallies: near, own });
        }
        for term in &need.apart {
            let tally = plan.count(&term.key, selected(vec![term.pods.clone()]));
            plan.rules.push(Rule::Apart { tally });
        }
        let (averse, liking): (Vec<Bond>, Vec<Bond>) =
            census.bonds_about(need).into_iter().partition(|bond| bond.kind == BondKind::Aversion);
        for bond in averse {
            let tally = plan.count(&bond.term.key.clone(), Question::Bearing(bond));
            plan.rules.push(Rule::Repelled { tally });
        }
        for constraint in need.constraints.iter().filter(|constraint| constraint.looks_around()) {
            let tally = plan.instances(constraint, need);
            plan.rules.push(Rule::Constraint { tally, constraint: constraint.clone() });
        }
        for (weight, term) in &need.liked {
            let tally = plan.count(&term.key, selected(vec![term.pods.clone()]));
            plan.wishes.push(Wish { tally, kind: WishKind::Weight(*weight) });
        }
        for bond in liking {
            let BondKind::Liking(weight) = bond.kind else { continue };
            let tally = plan.count(&bond.term.key.clone(), Question::Bearing(bond));
            plan.wishes.push(Wish { tally, kind: WishKind::Weight(weight) });
        }
        for spread in need.spread.iter().filter(|spread| !spread.hard) {
            let tally = plan.spread(spread);
            let kind = WishKind::Spread { max_skew: spread.max_skew, lenient: spread.lenient };
            plan.wishes.push(Wish { tally, kind });
        }
        plan.carry_out(need, nodes, census, comparisons)
    }

    /// Whether domains and questions are still those that were found at the start.
    pub fn stand(&self, need: &Need, nodes: &Nodes, census: &Census) -> bool {
        let shape = self.topology.is_flat() || self.shape == nodes.shape;
        let Some(new_bonds) = census.new_bonds.since(self.bonds_seen) else { return false };
        shape && self.era == census.era && !new_bonds.iter().any(|bond| census.is_about(bond, need))
    }

    /// The new bonds are known not to matter.
    pub fn saw_bonds(&mut self, census: &Census) {
        self.bonds_seen = census.new_bonds.end();
    }

    /// Gives the questions back.
    pub fn end(self, census: &mut Census) {
        self.tallies.iter().for_each(|tally| census.forget(tally.question));
    }

    /// Whether the rules let a pod onto the node. The first that doesn't says why.
    pub fn judge(&self, node: u32, shift: Shift<'_>) -> Result<(), Refusal> {
        self.rules.iter().try_for_each(|rule| self.judge_one(rule, node, shift))
    }

    /// Whether those rules that look at fine keys (or those that don't) let a pod onto the node.
    pub fn admits(&self, node: u32, fine: bool) -> bool {
        let mut mine = self.rules.iter().filter(|rule| self.is_fine(rule) == fine);
        mine.all(|rule| self.judge_one(rule, node, None).is_ok())
    }

    fn is_fine(&self, rule: &Rule) -> bool {
        rule.tallies().iter().any(|tally| self.topology.is_fine(self.tallies[*tally].key))
    }

    fn judge_one(&self, rule: &Rule, node: u32, shift: Shift<'_>) -> Result<(), Refusal> {
        let domain = |tally: usize| self.topology.domain(node, self.tallies[tally].key);
        let by = |tally: usize| shift.map_or(0, |shift| shift[tally]);
        let count = |tally: usize| i64::from(self.tallies[tally].count(domain(tally))) + by(tally);
        let refuse = |open: bool, refusal: Refusal| if open { Ok(()) } else { Err(refusal) };
        match rule {
            Rule::Spread { tally, max_skew, min_domains, own } => {
                let domain = domain(*tally);
                if domain == NONE {
                    return Err(Refusal::SpreadLabel);
                }
                let counts = &self.tallies[*tally];
                let least = match by(*tally) {
                    _ if counts.width() < *min_domains => 0,
                    0 => i64::from(counts.least()),
                    by => counts.least_with(domain, by),
                };
                refuse(count(*tally) + own - least <= *max_skew, Refusal::Spread)
            }
            Rule::Near { tallies, own } => {
                if tallies.iter().any(|tally| domain(*tally) == NONE) {
                    return Err(Refusal::PodAffinity);
                }
                let all_there = tallies.iter().all(|tally| count(*tally) > 0);
                let nobody = || tallies.iter().all(|tally| i64::from(self.tallies[*tally].total()) + by(*tally) == 0);
                refuse(all_there || (*own && nobody()), Refusal::PodAffinity)
            }
            Rule::Apart { tally } => refuse(domain(*tally) == NONE || count(*tally) == 0, Refusal::PodAntiAffinity),
            Rule::Repelled { tally } => {
                refuse(domain(*tally) == NONE || count(*tally) == 0, Refusal::RunningAntiAffinity)
            }
            Rule::Constraint { tally, constraint } => {
                let placed = self.placed(*tally, node, constraint);
                // Only whether there is a value matters to the rules that look around.
                let value = (domain(*tally) != NONE).then(|| crate::Attribute::text(""));
                let open = constraint.accepts(value.as_ref(), &placed, self.instances);
                if open { Ok(()) } else { Err(Refusal::Constraint(constraint.to_string())) }
            }
        }
    }

    fn placed(&self, tally: usize, node: u32, constraint: &Constraint) -> Placed {
        let counts = &self.tallies[tally];
        let share = constraint.share(self.instances);
        let outside = counts.outside();
        let smallest = [counts.least_used(), outside].into_iter().filter(|count| *count > 0).min();
        Placed {
            all: counts.total() + outside,
            here: counts.count(self.topology.domain(node, counts.key)),
            groups: counts.above(0) + u32::from(outside > 0),
            smallest: smallest.unwrap_or(0),
            over_share: counts.above(share) + u32::from(outside > share),
        }
    }

    /// How little the pods near the node make it wished for, in points: by wishes over fine keys, or over the others.
    pub fn points(&self, node: u32, fine: bool) -> i64 {
        let points = |wish: &Wish| {
            let counts = &self.tallies[wish.tally];
            let domain = self.topology.domain(node, counts.key);
            let count = i64::from(counts.count(domain));
            match wish.kind {
                WishKind::Weight(weight) => -i64::from(weight) * count,
                WishKind::Spread { lenient: false, .. } if domain == NONE => NO_DOMAIN_POINTS,
                WishKind::Spread { .. } => SPREAD_POINTS * count,
            }
        };
        let mine = self.wishes.iter().filter(|wish| self.topology.is_fine(self.tallies[wish.tally].key) == fine);
        mine.map(points).sum()
    }

    /// What of all domains together the rules look at: when it changes, any node may open or close. By fineness.
    pub fn outlook(&self, fine: bool) -> Vec<u32> {
        let mine = self.rules.iter().filter(|rule| self.is_fine(rule) == fine);
        mine.flat_map(|rule| match rule {
            Rule::Spread { tally, .. } => vec![self.tallies[*tally].least()],
            Rule::Near { tallies, .. } => {
                vec![u32::from(tallies.iter().any(|tally| self.tallies[*tally].total() > 0))]
            }
            Rule::Apart { .. } | Rule::Repelled { .. } => Vec::new(),
            Rule::Constraint { tally, constraint } => {
                let Placed { all, groups, smallest, over_share, .. } = self.placed(*tally, NONE, constraint);
                if constraint.compares_groups() { vec![groups, smallest, over_share] } else { vec![all.min(1)] }
            }
        })
        .collect()
    }

    /// How each tally's count in the node's domain shifts if these pods go and come.
    pub fn shift(&self, node: u32, gone: &[(&Need, bool)], come: &[&Need], census: &Census) -> Vec<i64> {
        let by = |tally: &Tally| {
            if !tally.counts_node(node) {
                return 0;
            }
            let counts = |need: &Need, terminating: bool| census.would_count(tally.question, need, terminating);
            let gone = gone.iter().filter(|(need, terminating)| counts(need, *terminating)).count();
            let come = come.iter().filter(|need| counts(need, false)).count();
            come as i64 - gone as i64
        };
        self.tallies.iter().map(by).collect()
    }
}

fn selected(selectors: Vec<PodSelector>) -> Question {
    Question::Selected { selectors, living: false }
}

/// Collects what is to be counted before anything is.
#[derive(Default)]
struct Planner {
    topology: Topology,
    counts: Vec<(usize, Question, Option<Spread>)>,
    rules: Vec<Rule>,
    wishes: Vec<Wish>,
}

impl Planner {
    fn count(&mut self, label: &str, question: Question) -> usize {
        let key = self.topology.key(Key::Label(label.to_owned()));
        self.add(key, question, None)
    }

    fn spread(&mut self, spread: &Spread) -> usize {
        let key = self.topology.key(Key::Label(spread.key.clone()));
        let question = Question::Selected { selectors: vec![spread.pods.clone()], living: true };
        self.add(key, question, Some(spread.clone()))
    }

    fn instances(&mut self, constraint: &Constraint, need: &Need) -> usize {
        let key = self.topology.key(Key::Field(constraint.field.clone()));
        let owner = need.owner.clone().unwrap_or_default();
        self.add(key, Question::Owned { namespace: need.namespace.clone(), owner }, None)
    }

    fn add(&mut self, key: usize, question: Question, spread: Option<Spread>) -> usize {
        self.counts.push((key, question, spread));
        self.counts.len() - 1
    }

    fn carry_out(mut self, need: &Need, nodes: &Nodes, census: &mut Census, comparisons: bool) -> Rules {
        self.topology.measure(nodes);
        let counts = std::mem::take(&mut self.counts);
        let tally = |(key, question, spread): (usize, Question, Option<Spread>)| {
            let question = census.ask(question);
            let counted = spread.map(|spread| counted_nodes(&spread, need, nodes, comparisons));
            let ids = nodes.iter().map(|(id, _)| id);
            Tally::new(question, key, counted, ids, &self.topology, census)
        };
        let tallies = counts.into_iter().map(tally).collect();
        Rules {
            tallies,
            rules: self.rules,
            wishes: self.wishes,
            topology: self.topology,
            instances: 0,
            era: census.era,
            shape: nodes.shape,
            bonds_seen: census.new_bonds.end(),
        }
    }
}

/// Nodes count for a spread constraint when they carry the labels of all the pod's constraints of that kind, and pass
/// the constraint's policies.
fn counted_nodes(spread: &Spread, need: &Need, nodes: &Nodes, comparisons: bool) -> Vec<bool> {
    let mut counted = vec![false; nodes.bound()];
    for (id, node) in nodes.iter() {
        let labels = &node.facts.labels;
        let mut siblings = need.spread.iter().filter(|other| other.hard == spread.hard);
        counted[id as usize] = siblings.all(|other| other.lenient || labels.contains_key(&other.key))
            && (!spread.honors_affinity || need.selects(&node.name, labels))
            && (!spread.honors_taints || need.tolerates_all(&node.facts.taints, comparisons));
    }
    counted
}
