//! Offers: made from the allocator's grants, and each ended exactly once — accepted, declined, rescinded or void.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1::{
    self,
    scheduler::{self, call, event},
};

use super::{Master, agent::Agent, event::Timer, framework::Framework, validation};
use crate::allocator::{Grant, reservations};

/// How long a refusal lasts when nothing lawful is said.
const DEFAULT_REFUSAL: Duration = Duration::from_secs(5);
/// The longest refusal; longer ones are cut to it.
const LONGEST_REFUSAL: Duration = Duration::from_secs(365 * 86_400);

impl Master {
    /// The batch allocation over all agents.
    pub(super) fn allocate_all(&mut self) {
        self.counters.count("allocation_runs");
        let grants = self.allocator.allocate_all(self.now);
        self.send_offers(grants);
        self.send_inverse_offers();
    }

    /// The allocation over agents that something happened to.
    pub(super) fn allocate_candidates(&mut self) {
        if self.allocator.has_candidates() {
            self.counters.count("allocation_runs");
            let grants = self.allocator.allocate_candidates(self.now);
            self.send_offers(grants);
            self.send_inverse_offers();
        }
    }

    fn send_offers(&mut self, grants: Vec<Grant>) {
        let mut by_framework: BTreeMap<String, Vec<v1::Offer>> = BTreeMap::new();
        for grant in grants {
            let framework_id = grant.framework.clone();
            match self.make_offer(&grant) {
                Some(offer) => by_framework.entry(framework_id).or_default().push(offer),
                // Allocator and master agree on who is there, so this does not happen; nothing may leak if it does.
                None => self.allocator.recover(self.now, &framework_id, &grant.agent, &grant.resources, None),
            }
        }
        for (framework, offers) in by_framework {
            let event = scheduler::Event { offers: Some(event::Offers { offers }), ..Default::default() };
            self.tell_framework(&framework, event::Type::Offers, event);
        }
    }

    fn make_offer(&mut self, grant: &Grant) -> Option<v1::Offer> {
        let unavailability = self.unavailability_of(&grant.agent);
        let framework = self.frameworks.get_mut(&grant.framework).filter(|framework| framework.connected())?;
        let agent = self.agents.get_mut(&grant.agent).filter(|agent| agent.offerable())?;
        let id = format!("{}-O{}", self.config.info.id, self.next_offer);
        self.next_offer += 1;
        let offer = v1::Offer {
            id: v1::OfferId { value: id.clone() },
            framework_id: super::calls::framework_id(&framework.id),
            agent_id: v1::AgentId { value: agent.id.clone() },
            hostname: agent.info.hostname.clone(),
            resources: reservations::for_framework(&grant.resources, framework.has_refinement()),
            executor_ids: agent.executor_ids(&framework.id),
            attributes: agent.info.attributes.clone(),
            url: Some(agent.url()),
            unavailability,
            allocation_info: Some(v1::resource::AllocationInfo { role: Some(grant.role.clone()) }),
            domain: agent.info.domain.clone(),
        };
        let multi_role = framework.has_multi_role();
        framework.offers.insert(id.clone());
        agent.offers.insert(id.clone());
        self.offers.insert(id.clone(), offer.clone());
        self.counters.count("offers_sent");
        if let Some(timeout) = self.config.offer_timeout {
            self.arm(timeout, Timer::OfferTimeout(id));
        }
        Some(if multi_role { offer } else { without_allocation(offer) })
    }

    /// Takes an offer off the books without giving its resources back.
    pub(super) fn remove_offer(&mut self, id: &str) -> Option<v1::Offer> {
        let offer = self.offers.remove(id)?;
        if let Some(framework) = self.frameworks.get_mut(&offer.framework_id.value) {
            framework.offers.remove(id);
        }
        if let Some(agent) = self.agents.get_mut(&offer.agent_id.value) {
            agent.offers.remove(id);
        }
        Some(offer)
    }

    /// Ends an offer and gives its resources back, under a filter if the framework refused them.
    pub(super) fn discard_offer(&mut self, id: &str, refusal: Option<Duration>) {
        let Some(offer) = self.remove_offer(id) else { return };
        let resources = validation::resource::read(&offer.resources);
        let (framework, agent) = (&offer.framework_id.value, &offer.agent_id.value);
        self.allocator.recover(self.now, framework, agent, &resources, refusal);
    }

    /// Ends an offer and says so to the framework.
    pub(super) fn rescind_offer(&mut self, id: &str) {
        let Some(framework) = self.offers.get(id).map(|offer| offer.framework_id.value.clone()) else { return };
        self.discard_offer(id, None);
        self.counters.count("offers_rescinded");
        let rescind = event::Rescind { offer_id: v1::OfferId { value: id.to_owned() } };
        let event = scheduler::Event { rescind: Some(rescind), ..Default::default() };
        self.tell_framework(&framework, event::Type::Rescind, event);
    }

    pub(super) fn rescind_offers_of_agent(&mut self, agent: &str) {
        let offers = self.agents.get(agent).map(|agent| agent.offers.clone()).unwrap_or_default();
        for offer in offers {
            self.rescind_offer(&offer);
        }
        self.rescind_inverse_offers_of_agent(agent);
    }

    /// Ends all offers, for changes that the whole cluster's shares depend on.
    pub(super) fn rescind_all_offers(&mut self) {
        for offer in self.offers.keys().cloned().collect::<Vec<_>>() {
            self.rescind_offer(&offer);
        }
    }

    pub(super) fn discard_offers_of_framework(&mut self, framework: &str) {
        let Some(found) = self.frameworks.get(framework) else { return };
        for offer in found.offers.clone() {
            self.discard_offer(&offer, None);
        }
        self.drop_inverse_offers_of_framework(framework);
    }

    pub(super) fn offer_timeout(&mut self, id: &str) {
        self.rescind_offer(id);
    }

    pub(super) fn decline(&mut self, framework: &str, decline: call::Decline) {
        let refusal = refusal(decline.filters.as_ref());
        for id in decline.offer_ids {
            let owned = self.offers.get(&id.value).is_some_and(|offer| offer.framework_id.value == framework);
            if owned {
                self.counters.count("offers_declined");
                self.discard_offer(&id.value, Some(refusal));
            } else {
                tracing::debug!(framework, offer = id.value, "decline of an offer that is not valid");
            }
        }
    }
}

impl Framework {
    /// Whether it knows of roles in plural, so of what an allocation's role is for.
    pub(super) fn has_multi_role(&self) -> bool {
        self.has(v1::framework_info::capability::Type::MultiRole)
    }

    pub(super) fn has_refinement(&self) -> bool {
        self.has(v1::framework_info::capability::Type::ReservationRefinement)
    }
}

impl Agent {
    /// Where the agent's HTTP API is.
    pub(super) fn url(&self) -> v1::Url {
        let address = v1::Address {
            hostname: Some(self.info.hostname.clone()),
            ip: Some(self.ip.clone()),
            port: self.info.port.unwrap_or(5051),
        };
        v1::Url {
            scheme: "http".to_owned(),
            address,
            path: Some("/slave(1)".to_owned()),
            query: Vec::new(),
            fragment: None,
        }
    }
}

/// How long what is left of an offer must not be offered again: 5 s by default, also for negative numbers and NaN;
/// at most a year; zero means no filter.
pub(super) fn refusal(filters: Option<&v1::Filters>) -> Duration {
    let seconds = filters.map_or(5.0, v1::Filters::refuse_seconds);
    if seconds.is_nan() || seconds < 0.0 {
        return DEFAULT_REFUSAL;
    }
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_REFUSAL).min(LONGEST_REFUSAL)
}

/// As a framework sees an offer that knows of one role only.
fn without_allocation(mut offer: v1::Offer) -> v1::Offer {
    offer.allocation_info = None;
    for resource in &mut offer.resources {
        resource.allocation_info = None;
    }
    offer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_clamped_to_lawful_times() {
        let of = |seconds| refusal(Some(&v1::Filters { refuse_seconds: Some(seconds) }));
        assert_eq!(refusal(None), DEFAULT_REFUSAL);
        assert_eq!(refusal(Some(&v1::Filters { refuse_seconds: None })), DEFAULT_REFUSAL);
        assert_eq!(of(-1.0), DEFAULT_REFUSAL);
        assert_eq!(of(f64::NAN), DEFAULT_REFUSAL);
        assert_eq!(of(0.0), Duration::ZERO);
        assert_eq!(of(2.5), Duration::from_millis(2500));
        assert_eq!(of(1e12), LONGEST_REFUSAL);
        assert_eq!(of(f64::INFINITY), LONGEST_REFUSAL);
    }
}
