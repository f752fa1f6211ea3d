//! Inverse offers: frameworks that use an agent under a maintenance schedule are asked to leave it.

use std::time::Duration;

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
    /// Asks every framework that uses a machine of the schedule and isn't asked already.
    pub(super) fn send_inverse_offers(&mut self) {
        if self.schedule.windows.is_empty() {
            return;
        }
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        for agent_id in agents {
            let Some(unavailability) = self.unavailability_of(&agent_id) else { continue };
            let Some(agent) = self.agents.get(&agent_id) else { continue };
            let url = agent.url();
            for framework in agent.used.keys().cloned().collect::<Vec<_>>() {
                if self.is_asked(&framework, &agent_id) {
                    continue;
                }
                self.send_inverse_offer(&framework, &agent_id, url.clone(), unavailability);
            }
        }
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

    fn send_inverse_offer(&mut self, framework: &str, agent: &str, url: v1::Url, unavailability: v1::Unavailability) {
        let id = format!("{}-O{}", self.config.info.id, self.next_offer);
        self.next_offer += 1;
        let offer = v1::InverseOffer {
            id: v1::OfferId { value: id.clone() },
            url: Some(url),
            framework_id: calls::framework_id(framework),
            agent_id: Some(v1::AgentId { value: agent.to_owned() }),
            unavailability,
            resources: Vec::new(),
        };
        self.inverse_offers.insert(id.clone(), offer.clone());
        if let Some(framework) = self.frameworks.get_mut(framework) {
            framework.inverse_offers.insert(id.clone());
        }
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.inverse_offers.insert(id);
        }
        let inverse_offers = Some(event::InverseOffers { inverse_offers: vec![offer] });
        let event = scheduler::Event { inverse_offers, ..Default::default() };
        self.tell_framework(framework, event::Type::InverseOffers, event);
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
