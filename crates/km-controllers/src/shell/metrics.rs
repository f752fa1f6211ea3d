//! Counters.

use crate::core::{Action, Failure, Outcome};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    verb: &'static str,
    resource: String,
    outcome: &'static str,
}

/// Calls to the API server by verb, resource and what came of them.
#[derive(Clone)]
pub(super) struct Metrics {
    calls: Family<Labels, Counter>,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let calls = Family::default();
        let help = "Calls of the controllers to the API server";
        registry.register("km_controller_calls", help, Family::clone(&calls));
        Self { calls }
    }

    pub(super) fn count(&self, action: &Action, outcome: &Outcome) {
        let outcome = match outcome {
            Ok(_) => "ok",
            Err(Failure::NotFound) => "not_found",
            Err(Failure::AlreadyExists) => "already_exists",
            Err(Failure::Conflict) => "conflict",
            Err(Failure::Refused(_)) => "refused",
            Err(Failure::Unreachable(_)) => "unreachable",
            Err(Failure::Skipped) => "skipped",
        };
        let labels = Labels { verb: action.verb(), resource: action.resource().plural.clone(), outcome };
        self.calls.get_or_create(&labels).inc();
    }
}
