//! Which of the fitting nodes is chosen.

mod kubernetes;
mod own;
mod resources;

use std::fmt;

pub use kubernetes::{Kubernetes, Scores};
pub use own::{FirstFit, Pack, Spread};
pub use resources::{FitScoring, ResourceWeight, Shape};

use crate::{
    Amounts, Need,
    node::{NodeFacts, Supply},
    rules::WishKind,
};

/// The ways to choose that are built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// The fullest node: leaves whole agents to others.
    #[default]
    Pack,
    /// The emptiest node.
    Spread,
    /// The node whose offer came first, as the first Kubernetes-Mesos did.
    FirstFit,
    /// The highest sum of the scores of the Kubernetes scheduler. It looks at every node for each pod.
    Kubernetes,
}

impl Strategy {
    pub const ALL: [Self; 4] = [Self::Pack, Self::Spread, Self::FirstFit, Self::Kubernetes];
    /// How flags and annotations name them.
    pub const NAMES: [&str; 4] = ["pack", "spread", "fcfs", "kubernetes"];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Pack => Self::NAMES[0],
            Self::Spread => Self::NAMES[1],
            Self::FirstFit => Self::NAMES[2],
            Self::Kubernetes => Self::NAMES[3],
        }
    }

    pub(crate) fn chooser(self) -> Box<dyn Chooser> {
        match self {
            Self::Pack => Box::new(Pack),
            Self::Spread => Box::new(Spread),
            Self::FirstFit => Box::new(FirstFit),
            Self::Kubernetes => Box::new(Kubernetes::default()),
        }
    }
}

/// What may be set about placement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    pub strategy: Strategy,
    /// Whether tolerations with `Gt` and `Lt` count.
    pub comparison_tolerations: bool,
}

/// A way to choose.
pub trait Chooser: fmt::Debug + Send + Sync {
    /// The rank of a node; lower is better, and of equals the first known. It is asked for again only when the node
    /// changes, so it may look at nothing else.
    fn rank(&self, node: &Candidate<'_>) -> i64;

    /// Whether the pod's preferences, and then the number of pods of the same owner on the node, go before the rank.
    fn minds_wishes(&self) -> bool {
        true
    }

    /// Whether all fitting nodes are to be compared by [`Chooser::choose`] instead, at the cost of a look at each.
    fn compares(&self) -> bool {
        false
    }

    /// Index of the best of the candidates.
    fn choose(&self, _contest: &Contest<'_>) -> Option<usize> {
        None
    }
}

/// A node that fits, as a [`Chooser`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub name: &'a str,
    pub facts: &'a NodeFacts,
    pub supply: &'a Supply,
    /// The sum of what the pods on it take.
    pub requested: &'a Amounts,
    /// The same for CPU and memory, with a default for containers that say nothing.
    pub scored: [i64; 2],
}

/// All nodes that fit a pod.
#[derive(Debug)]
pub struct Contest<'a> {
    pub need: &'a Need,
    pub candidates: Vec<Candidate<'a>>,
    /// How many nodes there are, fitting or not, and for each of the pod's images how many have it.
    pub nodes: usize,
    pub image_spread: Vec<usize>,
    /// The wishes of the pod about others and of others about it, each with the candidates' domains and counts.
    pub(crate) wishes: Vec<(WishKind, String, Vec<Near>)>,
}

/// The domain of a candidate, if it has one, and the number of pods there that a wish is about.
pub(crate) type Near = Option<(u32, u32)>;
