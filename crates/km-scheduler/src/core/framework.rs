//! What the framework is to Mesos, and how that changes while the scheduler runs.
//!
//! A change is taken in at once and told to the master by UPDATE_FRAMEWORK, or by another subscription where the master
//! doesn't know that call. What the master refuses is taken back as a whole. No pod that runs is touched by it: what its
//! task holds stays allocated to its role, whether or not the framework still has that role.

use std::{sync::Arc, time::Duration};

use km_mesos_proto::{
    constraints::{Constraints, Traits},
    v1::{self, scheduler::OfferConstraints},
};
use km_offers::DeclineReason;
use km_podtask::{PodKey, roles};

use super::{
    Action, Core,
    agents::{Agent, offer_role},
};

/// What the framework says of itself, and whose resources its pods use.
#[derive(Clone, Debug, PartialEq)]
pub struct Framework {
    /// Without its id. Its roles are those that offers are made to.
    pub info: v1::FrameworkInfo,
    /// Which agents' offers are wanted, by role.
    pub constraints: OfferConstraints,
    /// Roles whose resources pods may use.
    pub roles: Vec<String>,
    /// Those of pods without annotation, the preferred first.
    pub default_pod_roles: Vec<String>,
}

impl Framework {
    /// One that says nothing of itself but its roles.
    pub fn in_roles(roles: Vec<String>, default_pod_roles: Vec<String>) -> Self {
        let info = v1::FrameworkInfo { roles: subscribed(&roles), ..v1::FrameworkInfo::default() };
        Self { info, constraints: OfferConstraints::default(), roles, default_pod_roles }
    }

    /// Whether Mesos would see no difference.
    fn is_told_like(&self, other: &Self) -> bool {
        self.info == other.info && self.constraints == other.constraints
    }
}

impl Default for Framework {
    fn default() -> Self {
        let any = || vec![roles::ANY.to_owned()];
        Self::in_roles(any(), any())
    }
}

/// The roles to subscribe in. Offers to any role hold unreserved resources, too, so `*` is left out beside others: what is
/// taken in its name would count for no role's quota.
pub fn subscribed(roles: &[String]) -> Vec<String> {
    let named = roles::named(roles);
    if named.is_empty() { vec![roles::ANY.to_owned()] } else { named }
}

/// A subscription that began.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub framework_id: String,
    /// Whether no role wants offers yet.
    pub suppressed: bool,
    /// What it said.
    pub framework: Arc<Framework>,
    /// Whether the master is of 1.11 or later: it knows UPDATE_FRAMEWORK and offer constraints.
    pub updates: bool,
}

/// A master's answer to UPDATE_FRAMEWORK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameworkAnswer {
    Accepted,
    Refused {
        reason: String,
        /// Whether it is about what Mesos never changes, such as the user. Then it refuses every update, but takes all
        /// the rest when the framework subscribes anew.
        keeps: bool,
    },
}

/// How far the master has taken what we say.
#[derive(Default)]
pub(super) struct Standing {
    judge: Constraints,
    /// What held before the change that the master hasn't answered yet.
    former: Option<Arc<Framework>>,
    /// The change that follows it.
    next: Option<Arc<Framework>>,
    /// See [`Subscription::updates`].
    pub updates: bool,
    /// See [`FrameworkAnswer::Refused`].
    keeps: bool,
    /// Of the newest UPDATE_FRAMEWORK.
    number: u64,
    /// Why the master refused the last change.
    pub refusal: Option<String>,
}

impl Standing {
    pub fn new(framework: &Framework) -> Self {
        Self { judge: judge(framework), ..Self::default() }
    }
}

/// Constraints were compiled once when they were read, so a failure means none.
fn judge(framework: &Framework) -> Constraints {
    Constraints::compile(&framework.constraints).unwrap_or_default()
}

impl Core {
    /// What the next subscription is to say.
    pub fn framework(&self) -> &Arc<Framework> {
        &self.config.framework
    }

    /// The flags or the configuration file say something else than before.
    pub(super) fn on_configured(&mut self, now: Duration, new: Arc<Framework>, out: &mut Vec<Action>) {
        if self.standing.former.is_some() {
            self.standing.next = Some(new);
            return;
        }
        if *new == *self.config.framework {
            return;
        }
        let former = self.act_by(now, new, out);
        if former.is_told_like(&self.config.framework) {
            return;
        }
        self.standing.former = Some(former);
        // Else the next subscription says it.
        if self.subscribed.is_some() {
            self.tell_framework(out);
        }
    }

    /// The master took what the subscription said, but may have kept, without a word, what it never changes: asked to
    /// update it, it says so.
    pub(super) fn framework_subscribed(&mut self, now: Duration, subscription: &Subscription, out: &mut Vec<Action>) {
        let said = &subscription.framework;
        self.standing.updates = subscription.updates;
        self.standing.keeps = false;
        if !subscription.updates && !self.config.framework.constraints.role_constraints.is_empty() {
            tracing::warn!("the master knows no offer constraints: unwanted offers are declined instead");
        }
        if **said == *self.config.framework {
            self.change_taken(now, out);
            if self.subscribed.is_some() && self.standing.former.is_none() && subscription.updates {
                self.tell_framework(out);
            }
        } else {
            // It changed while the subscription was on its way.
            self.standing.former = Some(Arc::clone(said));
            self.tell_framework(out);
        }
    }

    pub(super) fn on_framework_answer(
        &mut self,
        now: Duration,
        number: u64,
        answer: FrameworkAnswer,
        out: &mut Vec<Action>,
    ) {
        if number != self.standing.number {
            return;
        }
        match answer {
            FrameworkAnswer::Accepted => self.change_taken(now, out),
            FrameworkAnswer::Refused { keeps: true, .. } => {
                self.standing.keeps = true;
                if self.standing.former.is_some() {
                    out.push(Action::Resubscribe);
                }
            }
            FrameworkAnswer::Refused { reason, keeps: false } => self.take_back(now, reason, out),
        }
    }

    /// The master lets the framework not subscribe as it is now.
    pub(super) fn on_subscription_refused(&mut self, now: Duration, reason: String, out: &mut Vec<Action>) {
        if self.subscribed.is_none() {
            self.take_back(now, reason, out);
        }
    }

    fn tell_framework(&mut self, out: &mut Vec<Action>) {
        if !self.standing.updates || self.standing.keeps {
            out.push(Action::Resubscribe);
            return;
        }
        self.standing.number += 1;
        let framework = &self.config.framework;
        let mut info = framework.info.clone();
        info.id = self.framework_id.clone().map(v1::FrameworkId::from);
        out.push(Action::UpdateFramework {
            number: self.standing.number,
            suppressed_roles: if self.demand.is_suppressed() { info.roles.clone() } else { Vec::new() },
            constraints: framework.constraints.clone(),
            info: Box::new(info),
        });
    }

    fn change_taken(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.standing.former.take().is_some() {
            tracing::info!(roles = ?self.config.framework.info.roles, "the master took the change of the framework");
            self.standing.refusal = None;
        }
        self.change_next(now, out);
    }

    fn take_back(&mut self, now: Duration, reason: String, out: &mut Vec<Action>) {
        let Some(former) = self.standing.former.take() else { return };
        tracing::error!(reason, "the master refused the change of the framework: all is as before it");
        self.standing.refusal = Some(reason);
        self.act_by(now, former, out);
        self.change_next(now, out);
    }

    fn change_next(&mut self, now: Duration, out: &mut Vec<Action>) {
        if let Some(next) = self.standing.next.take() {
            self.on_configured(now, next, out);
        }
    }

    /// Acts by another framework from now on; answers the one before.
    fn act_by(&mut self, now: Duration, new: Arc<Framework>, out: &mut Vec<Action>) -> Arc<Framework> {
        let former = std::mem::replace(&mut self.config.framework, new);
        self.standing.judge = judge(&self.config.framework);
        let held = self.pool.iter().filter(|held| !self.wants(&held.offer));
        let unwanted: Vec<v1::OfferId> = held.map(|held| held.offer.id.clone()).collect();
        self.offers(now, km_offers::Event::Refused(unwanted, DeclineReason::Unwanted), out);
        let agents: Vec<(String, String)> =
            self.agents.current().map(|agent| (agent.id.clone(), agent.hostname.clone())).collect();
        for (id, hostname) in agents {
            self.agents.touched.insert(hostname);
            self.ensure_node(&id, out);
            self.ensure_taints(now, &id, out);
        }
        let waiting = self.queue.iter().map(|(key, _)| key);
        let waiting: Vec<PodKey> = waiting.chain(self.queue.held.keys()).cloned().collect();
        for key in waiting {
            if let Some(pod) = self.pods.get(&key).cloned() {
                self.consider_waiting(now, key, &pod, out);
            }
        }
        self.queue.stir(now);
        self.demand.touch(now);
        former
    }

    /// Whether an offer is of a role and an agent that offers are wanted of. It may have been made before the master heard
    /// of a change, or by one that knows no constraints.
    pub(super) fn wants(&self, offer: &v1::Offer) -> bool {
        let role = offer_role(offer);
        let known = self.config.framework.info.roles.contains(&role);
        known && self.standing.judge.allow(&role, &Traits::from(offer))
    }

    /// Whether no role wants an agent's offers.
    pub(super) fn excludes(&self, agent: &Agent) -> bool {
        let framework = &self.config.framework;
        if !agent.described || framework.constraints.role_constraints.is_empty() {
            return false;
        }
        let (region, zone) = agent.domain.as_ref().map(|(region, zone)| (region.as_str(), zone.as_str())).unzip();
        let traits = Traits { hostname: &agent.hostname, attributes: &agent.attributes, region, zone };
        !framework.info.roles.iter().any(|role| self.standing.judge.allow(role, &traits))
    }
}
