//! The fitting nodes side by side, for choosers that compare them.

use std::sync::Arc;

use crate::{
    class::World,
    engine::Engine,
    fit::Node,
    need::Need,
    rules::Rules,
    strategy::{Candidate, Contest, Kubernetes, Near, Scores},
    topology::NONE,
};

impl Node {
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            name: &self.name,
            facts: &self.facts,
            supply: &self.supply,
            requested: &self.requested,
            scored: self.scored,
        }
    }
}

pub(crate) fn of<'a>(need: &'a Need, rules: &Rules, fitting: &[u32], world: World<'a>) -> Contest<'a> {
    let wishes = rules.wishes.iter().map(|wish| {
        let tally = &rules.tallies[wish.tally];
        let near = |node: &u32| -> Near {
            let domain = rules.topology.domain(*node, tally.key);
            (domain != NONE).then(|| (domain, tally.count(domain)))
        };
        (wish.kind, rules.topology.label(tally.key).to_owned(), fitting.iter().map(near).collect())
    });
    let with_image =
        |image: &String| world.nodes.iter().filter(|(_, node)| node.facts.images.contains_key(image)).count();
    Contest {
        need,
        candidates: fitting.iter().map(|node| world.nodes.at(*node).candidate()).collect(),
        nodes: world.nodes.len(),
        image_spread: need.images.iter().map(with_image).collect(),
        wishes: wishes.collect(),
    }
}

impl Engine {
    /// What the plugins of Kubernetes say about the nodes that fit. Changes nothing.
    pub fn scores(&mut self, need: &Arc<Need>, scoring: &Kubernetes) -> Scores {
        self.with_class(need, |class, world| scoring.scores(&of(need, &class.rules, &class.fitting(), world)))
    }
}
