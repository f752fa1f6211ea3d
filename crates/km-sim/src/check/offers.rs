//! Invariants 1 and 2: every offer ends once, and no more is launched from it than it holds.

use std::collections::HashMap;

use km_mesos_proto::{
    resources::Resources,
    v1::{Offer, OfferId, TaskInfo},
};

/// The offers that a scheduler has, by what was said on the wire.
#[derive(Default)]
pub(crate) struct Ledger {
    open: HashMap<(usize, String), Offer>,
}

impl Ledger {
    pub fn received(&mut self, process: usize, offers: &[Offer]) {
        for offer in offers {
            self.open.insert((process, offer.id.value.clone()), offer.clone());
        }
    }

    pub fn rescinded(&mut self, process: usize, id: &str) {
        self.open.remove(&(process, id.to_owned()));
    }

    /// A subscription ends with all its offers.
    pub fn forget(&mut self, process: usize) {
        self.open.retain(|(owner, _), _| *owner != process);
    }

    pub fn declined(&mut self, process: usize, offers: &[OfferId]) -> Result<(), String> {
        offers.iter().try_for_each(|id| self.end(process, id).map(drop))
    }

    fn end(&mut self, process: usize, id: &OfferId) -> Result<Offer, String> {
        let ended = self.open.remove(&(process, id.value.clone()));
        ended.ok_or_else(|| format!("invariant 1: offer {} has ended or was never made", id.value))
    }

    /// What is launched fits the offers, per role and port. Whether a new executor fits too is said by the master.
    pub fn accepted(&mut self, process: usize, offers: &[OfferId], tasks: &[TaskInfo]) -> Result<(), String> {
        let mut offered = Resources::default();
        for id in offers {
            let offer = self.end(process, id)?;
            if tasks.iter().any(|task| task.agent_id != offer.agent_id) {
                return Err(format!("invariant 2: offer {} is of another agent than the tasks", id.value));
            }
            offered += read(&offer.resources)?;
        }
        for task in tasks {
            let wanted = read(&task.resources)?;
            if !offered.contains(&wanted) {
                let id = &task.task_id.value;
                return Err(format!("invariant 2: {id} takes {wanted}, but only {offered} is left of the offers"));
            }
            offered -= wanted;
        }
        Ok(())
    }

    /// Offers that a scheduler holds.
    pub fn held(&self) -> impl Iterator<Item = &Offer> {
        self.open.values()
    }
}

fn read(resources: &[km_mesos_proto::v1::Resource]) -> Result<Resources, String> {
    Resources::from_protos(resources).map_err(|error| format!("invariant 2: {error}"))
}
