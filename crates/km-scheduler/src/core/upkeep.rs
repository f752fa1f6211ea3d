//! Agents that their operators want empty: draining, deactivated, or with a maintenance window to come.

use std::time::Duration;

use km_mesos_proto::v1;

use super::{Action, Core};

/// How soon an inverse offer that can't be met yet may come again.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// How long an inverse offer that will be met needn't come again.
const SETTLED: Duration = Duration::from_secs(600);

/// What is known of an agent's upkeep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Upkeep {
    /// The master drains it: Mesos kills what is left there when its grace is over.
    pub draining: bool,
    /// It makes no offers any more; what runs there may stay.
    pub deactivated: bool,
    pub window: Option<Window>,
}

/// A time in which the machine is planned to be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// UNIX time.
    pub start: Duration,
    /// None: for good.
    pub length: Option<Duration>,
}

impl Window {
    pub fn new(planned: &v1::Unavailability) -> Self {
        let nanoseconds = |value: i64| Duration::from_nanos(u64::try_from(value).unwrap_or(0));
        Self {
            start: nanoseconds(planned.start.nanoseconds),
            length: planned.duration.as_ref().map(|duration| nanoseconds(duration.nanoseconds)),
        }
    }

    fn end(&self) -> Option<Duration> {
        self.start.checked_add(self.length?)
    }
}

impl Upkeep {
    /// Why no pod is to come there at that UNIX time; windows count from `lead` before their start.
    pub fn reason(&self, unix: Duration, lead: Duration) -> Option<&'static str> {
        let due =
            |window: &Window| window.start.saturating_sub(lead) <= unix && window.end().is_none_or(|end| unix < end);
        match self {
            Self { draining: true, .. } => Some("draining"),
            Self { window: Some(window), .. } if due(window) => Some("maintenance"),
            Self { deactivated: true, .. } => Some("deactivated"),
            _ => None,
        }
    }

    /// Whether also the pods that are there are to leave.
    pub fn evacuates(&self, unix: Duration, lead: Duration) -> bool {
        !matches!(self.reason(unix, lead), None | Some("deactivated"))
    }

    /// When the answers change by themselves.
    pub fn next_change(&self, unix: Duration, lead: Duration) -> Option<Duration> {
        let window = self.window?;
        [Some(window.start.saturating_sub(lead)), window.end()].into_iter().flatten().find(|time| *time > unix)
    }
}

impl Core {
    /// UNIX time.
    pub(super) fn unix(&self, now: Duration) -> Duration {
        self.config.unix_start.saturating_add(now)
    }

    /// Frameworks with resources on a machine are asked to be away by the start of its maintenance. We accept, since
    /// its pods are evicted in time, but not while a disruption budget keeps one of them.
    pub(super) fn on_inverse_offers(&mut self, now: Duration, asked: Vec<v1::InverseOffer>, out: &mut Vec<Action>) {
        let (mut accepted, mut declined) = (Vec::new(), Vec::new());
        for offer in asked {
            let Some(agent_id) = offer.agent_id.as_ref().map(|id| id.value.clone()) else {
                accepted.push(offer.id);
                continue;
            };
            self.inverse.insert(offer.id.value.clone(), agent_id.clone());
            self.plan_window(now, &agent_id, Some(Window::new(&offer.unavailability)), out);
            match self.kept_by_budget(&agent_id) {
                Some((pod, reason)) => {
                    tracing::warn!(agent = agent_id, %pod, reason, "maintenance is declined: a pod may not be evicted");
                    declined.push(offer.id);
                }
                None => accepted.push(offer.id),
            }
        }
        for (offers, accept, refuse) in [(accepted, true, SETTLED), (declined, false, ASK_AGAIN)] {
            if !offers.is_empty() {
                out.push(Action::AnswerInverse { offers, accept, refuse });
            }
        }
    }

    /// The maintenance was called off, or is announced anew at once.
    pub(super) fn on_inverse_rescinded(&mut self, now: Duration, id: &v1::OfferId, out: &mut Vec<Action>) {
        if let Some(agent) = self.inverse.remove(&id.value) {
            self.plan_window(now, &agent, None, out);
        }
    }

    /// Notes an agent's maintenance.
    fn plan_window(&mut self, now: Duration, id: &str, window: Option<Window>, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get(id) else { return };
        let upkeep = Upkeep { window, ..agent.upkeep.clone() };
        self.set_upkeep(now, id, upkeep, out);
    }

    pub(super) fn set_upkeep(&mut self, now: Duration, id: &str, upkeep: Upkeep, out: &mut Vec<Action>) {
        let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.upkeep != upkeep) else { return };
        tracing::info!(agent = id, ?upkeep, "the agent's upkeep changed");
        agent.upkeep = upkeep;
        self.upkeep_changed(now, id, out);
    }

    fn upkeep_changed(&mut self, now: Duration, id: &str, out: &mut Vec<Action>) {
        self.evictions.stir(now);
        self.ensure_taints(now, id, out);
        let (unix, lead) = (self.unix(now), self.config.maintenance_lead);
        let next = self.agents.get(id).and_then(|agent| agent.upkeep.next_change(unix, lead));
        self.upkeeps.set(&id.to_owned(), next.map(|time| time.saturating_sub(self.config.unix_start)));
    }

    /// Windows begin and end without anybody saying so.
    pub(super) fn upkeep_due(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.upkeeps.first().is_some_and(|first| first <= now) {
            self.upkeeps.due(now).iter().for_each(|id| self.upkeep_changed(now, id, out));
        }
    }

    /// Panics unless the next change of each agent is noted, and none else.
    pub(super) fn check_upkeeps(&self, now: Duration) {
        let (unix, lead) = (self.unix(now), self.config.maintenance_lead);
        let next = self.agents.all().filter_map(|agent| Some((&agent.id, agent.upkeep.next_change(unix, lead)?)));
        let next = next.map(|(id, time)| (id.clone(), time.saturating_sub(self.config.unix_start)));
        assert_eq!(*self.upkeeps.times(), next.collect(), "the next changes of agents");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_window_counts_from_its_lead_to_its_end() {
        let lead = MINUTE * 10;
        let window = Window { start: MINUTE * 60, length: Some(MINUTE * 30) };
        let upkeep = Upkeep { window: Some(window), ..Upkeep::default() };
        for (minute, reason, next) in [
            (0, None, Some(50)),
            (50, Some("maintenance"), Some(90)),
            (89, Some("maintenance"), Some(90)),
            (90, None, None),
        ] {
            let now = MINUTE * minute;
            assert_eq!(upkeep.reason(now, lead), reason, "minute {minute}");
            assert_eq!(upkeep.next_change(now, lead), next.map(|next| MINUTE * next), "minute {minute}");
        }
        let forever = Upkeep { window: Some(Window { length: None, ..window }), ..Upkeep::default() };
        assert_eq!(forever.reason(MINUTE * 10_000, lead), Some("maintenance"));
    }

    #[test]
    fn a_deactivated_agent_keeps_its_pods_and_a_draining_one_does_not() {
        let deactivated = Upkeep { deactivated: true, ..Upkeep::default() };
        assert_eq!(deactivated.reason(MINUTE, MINUTE), Some("deactivated"));
        assert!(!deactivated.evacuates(MINUTE, MINUTE));
        assert!(Upkeep { draining: true, ..deactivated }.evacuates(MINUTE, MINUTE));
    }
}
