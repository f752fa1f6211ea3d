//! Inverse offers: frameworks that use an agent under a maintenance schedule are asked to leave it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use km_mesos_proto::v1::{
    self,
    allocator::{InverseOfferStatus, inverse_offer_status::Status},
    scheduler::{self, event},
};

use super::{Master, calls, event::time_info, offers::refusal};

/// What a framework answered, and until when it is not asked again.
#[derive(Clone, Debug)]
pub(super) struct InverseAnswer {
    pub status: InverseOfferStatus,
    pub asked_again: Duration,
}

impl Master {
    /// After an allocation: asks every framework that uses a machine of the schedule or is offered some of it, and that
    /// isn't asked already.
    pub(super) fn send_inverse_offers(&mut self) {
        if self.schedule.windows.is_empty() {
            return;
        }
        let mut asked: BTreeMap<String, Vec<v1::InverseOffer>> = BTreeMap::new();
        let machines: Vec<_> = self.schedule.windows.iter().flat_map(|window| window.machine_ids.clone()).collect();
        for agent_id in self.agents_on(&machines) {
            let Some(unavailability) = self.unavailability_of(&agent_id) else { continue };
            for framework in self.frameworks_on(&agent_id) {
                if let Some(offer) = self.make_inverse_offer(&framework, &agent_id, unavailability) {
                    asked.entry(framework).or_default().push(offer);
                }
            }
        }
        for (framework, inverse_offers) in asked {
            let inverse_offers = Some(event::InverseOffers { inverse_offers });
            let event = scheduler::Event { inverse_offers, ..Default::default() };
            self.tell_framework(&framework, event::Type::InverseOffers, event);
        }
    }

    /// Connected frameworks that hold or are offered something of an agent, and are not asked to leave it yet.
    fn frameworks_on(&self, id: &str) -> BTreeSet<String> {
        let Some(agent) = self.agents.get(id) else { return BTreeSet::new() };
        let offered = agent.offers.iter().filter_map(|offer| self.offers.get(offer));
        let all = agent.used.keys().chain(offered.map(|offer| &offer.framework_id.value));
        all.filter(|framework| !self.is_asked(framework, id)).cloned().collect()
    }

    fn is_asked(&self, framework: &str, agent: &str) -> bool {
        let Some(found) = self.frameworks.get(framework).filter(|found| found.connected()) else { return true };
        let outstanding = found.inverse_offers.iter().any(|id| {
            let offer = self.inverse_offers.get(id);
            offer.and_then(|offer| offer.agent_id.as_ref()).is_some_and(|id| id.value == agent)
        });
        let answered = self.inverse_answers.get(&(framework.to_owned(), agent.to_owned()));
        outstanding || answered.is_some_and(|answer| answer.asked_again > self.now)
    }

    fn make_inverse_offer(
        &mut self,
        framework: &str,
        agent_id: &str,
        unavailability: v1::Unavailability,
    ) -> Option<v1::InverseOffer> {
        let agent = self.agents.get_mut(agent_id)?;
        let id = format!("{}-O{}", self.config.info.id, self.next_offer);
        self.next_offer += 1;
        let offer = v1::InverseOffer {
            id: v1::OfferId { value: id.clone() },
            url: Some(agent.url()),
            framework_id: calls::framework_id(framework),
            agent_id: Some(v1::AgentId { value: agent_id.to_owned() }),
            unavailability,
            resources: Vec::new(),
        };
        agent.inverse_offers.insert(id.clone());
        if let Some(framework) = self.frameworks.get_mut(framework) {
            framework.inverse_offers.insert(id.clone());
        }
        self.inverse_offers.insert(id, offer.clone());
        Some(offer)
    }

    pub(super) fn answer_inverse_offers(
        &mut self,
        framework: &str,
        ids: &[v1::OfferId],
        accepted: bool,
        filters: Option<&v1::Filters>,
    ) {
        let asked_again = self.now + refusal(filters);
        for id in ids {
            let owned = self.inverse_offers.get(&id.value).is_some_and(|offer| offer.framework_id.value == framework);
            if !owned {
                continue;
            }
            let Some(offer) = self.remove_inverse_offer(&id.value) else { continue };
            let status = InverseOfferStatus {
                status: if accepted { Status::Accept } else { Status::Decline } as i32,
                framework_id: calls::framework_id(framework),
                timestamp: time_info(self.now),
            };
            let agent = offer.agent_id.map(|id| id.value).unwrap_or_default();
            self.inverse_answers.insert((framework.to_owned(), agent), InverseAnswer { status, asked_again });
        }
    }

    fn remove_inverse_offer(&mut self, id: &str) -> Option<v1::InverseOffer> {
        let offer = self.inverse_offers.remove(id)?;
        if let Some(framework) = self.frameworks.get_mut(&offer.framework_id.value) {
            framework.inverse_offers.remove(id);
        }
        let agent = offer.agent_id.as_ref().and_then(|agent| self.agents.get_mut(&agent.value));
        if let Some(agent) = agent {
            agent.inverse_offers.remove(id);
        }
        Some(offer)
    }

    pub(super) fn rescind_inverse_offers_of_agent(&mut self, agent: &str) {
        let offers = self.agents.get(agent).map(|agent| agent.inverse_offers.clone()).unwrap_or_default();
        for id in offers {
            let Some(offer) = self.remove_inverse_offer(&id) else { continue };
            let rescind_inverse_offer = Some(event::RescindInverseOffer { inverse_offer_id: offer.id });
            let event = scheduler::Event { rescind_inverse_offer, ..Default::default() };
            self.tell_framework(&offer.framework_id.value, event::Type::RescindInverseOffer, event);
        }
    }

    pub(super) fn drop_inverse_offers_of_framework(&mut self, framework: &str) {
        let offers = self.frameworks.get(framework).map(|found| found.inverse_offers.clone()).unwrap_or_default();
        for id in offers {
            self.remove_inverse_offer(&id);
        }
    }
}
