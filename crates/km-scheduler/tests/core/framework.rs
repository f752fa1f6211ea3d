//! What the framework is to Mesos changes while it runs.

mod constraints;
mod roles;

use std::{sync::Arc, time::Duration};

use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_scheduler::core::{Action, AgentSeen, ApiReply, Config, Core, Event, Framework, FrameworkAnswer, Subscription};

use crate::{SECOND, world::config};

/// A core before a master that answers nothing by itself.
struct Stage {
    core: Core,
    now: Duration,
    actions: Vec<Action>,
}

impl Stage {
    /// Pods and nodes are known, Mesos isn't yet.
    fn unsubscribed(framework: Framework) -> Self {
        let config = Config { framework: Arc::new(framework), ..config() };
        let mut stage = Self { core: Core::new(config, 1), now: Duration::ZERO, actions: Vec::new() };
        stage.tell(Event::CachesSynced);
        stage
    }

    /// `updates`: whether the master knows UPDATE_FRAMEWORK. If so, it has taken the one of the subscription.
    fn new(framework: Framework, updates: bool) -> Self {
        let mut stage = Self::unsubscribed(framework);
        stage.subscribe(updates);
        stage.answer(FrameworkAnswer::Accepted);
        stage.actions.clear();
        stage
    }

    fn subscribe(&mut self, updates: bool) {
        let framework = Arc::clone(self.core.framework());
        self.subscribed(framework, updates);
    }

    fn subscribed(&mut self, framework: Arc<Framework>, updates: bool) {
        let subscription = Subscription { framework_id: "f".to_owned(), suppressed: false, framework, updates };
        self.tell(Event::Subscribed(Box::new(subscription)));
    }

    fn configure(&mut self, framework: &Framework) {
        self.tell(Event::Configured(Arc::new(framework.clone())));
    }

    /// Answers the last UPDATE_FRAMEWORK.
    fn answer(&mut self, answer: FrameworkAnswer) {
        if let Some(number) = self.updates().last().map(|update| update.number) {
            self.tell(Event::FrameworkAnswer { number, answer });
        }
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.core.handle(self.now, event) {
                // Nodes are made as they are asked for.
                if let Action::CreateNode { op, node } = &action {
                    events.push(Event::NodeApplied(Arc::new((**node).clone())));
                    events.push(Event::Api { op: *op, reply: ApiReply::Done });
                }
                self.actions.push(action);
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            self.tell(Event::Tick);
        }
    }

    fn updates(&self) -> Vec<Update> {
        let update = |action: &Action| match action {
            Action::UpdateFramework { number, info, suppressed_roles, .. } => {
                Some(Update { number: *number, info: (**info).clone(), suppressed_roles: suppressed_roles.clone() })
            }
            _ => None,
        };
        self.actions.iter().filter_map(update).collect()
    }

    fn count(&self, pleases: impl Fn(&Action) -> bool) -> usize {
        self.actions.iter().filter(|action| pleases(action)).count()
    }

    fn resubscriptions(&self) -> usize {
        self.count(|action| *action == Action::Resubscribe)
    }

    /// Offers that were declined for that reason.
    fn declined(&self, wanted: DeclineReason) -> Vec<&str> {
        let offers = |action| match action {
            &Action::Decline { ref offers, reason, .. } if reason == wanted => Some(offers),
            _ => None,
        };
        self.actions.iter().filter_map(offers).flatten().map(|id| id.value.as_str()).collect()
    }
}

struct Update {
    number: u64,
    info: v1::FrameworkInfo,
    suppressed_roles: Vec<String>,
}

/// With a link, by which two of the same roles are told apart.
fn framework(roles: &[&str], link: &str) -> Framework {
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    let mut framework = Framework::in_roles(roles.clone(), roles);
    framework.info.webui_url = Some(link.to_owned());
    framework
}

fn refused(keeps: bool) -> FrameworkAnswer {
    FrameworkAnswer::Refused { reason: "no".to_owned(), keeps }
}

#[test]
fn a_change_is_told_by_an_update_where_the_master_knows_it_and_by_a_subscription_where_not() {
    let (old, new) = (framework(&["a"], "old"), framework(&["a", "b"], "new"));
    for updates in [true, false] {
        let mut stage = Stage::new(old.clone(), updates);
        stage.configure(&old);
        assert!(stage.actions.is_empty(), "nothing changed");
        stage.configure(&new);
        assert_eq!(stage.resubscriptions(), usize::from(!updates));
        let told = stage.updates();
        assert_eq!(told.len(), usize::from(updates));
        if let Some(update) = told.first() {
            let id = Some(v1::FrameworkId::from("f"));
            assert_eq!(update.info, v1::FrameworkInfo { id, ..new.info.clone() });
            assert_eq!(update.suppressed_roles, [""; 0]);
        }
        assert_eq!(**stage.core.framework(), new, "the next subscription says it, too");
    }
}

#[test]
fn without_a_subscription_a_change_waits_for_the_next_one() {
    let mut stage = Stage::unsubscribed(framework(&["a"], "old"));
    stage.configure(&framework(&["b"], "new"));
    assert!(stage.updates().is_empty() && stage.resubscriptions() == 0);
    assert_eq!(stage.core.framework().info.roles, ["b"]);
}

/// A master takes a subscription, but says only when it is asked to update the framework what it kept.
#[test]
fn each_subscription_is_followed_by_an_update_and_one_that_is_outdated_by_the_change() {
    let mut stage = Stage::unsubscribed(framework(&["a"], "old"));
    let said = Arc::clone(stage.core.framework());
    stage.subscribe(true);
    assert_eq!(stage.updates().len(), 1);
    stage.tell(Event::Disconnected);
    stage.configure(&framework(&["b"], "new"));
    stage.subscribed(Arc::clone(&said), true);
    assert_eq!(stage.updates().last().map(|update| update.info.roles.clone()), Some(vec!["b".to_owned()]));
    // What is refused then is taken back to what the subscription said.
    stage.answer(refused(false));
    assert_eq!(*stage.core.framework(), said);
    // A master that can't be told hears it in another subscription.
    let mut stage = Stage::unsubscribed(framework(&["a"], "old"));
    let said = Arc::clone(stage.core.framework());
    stage.configure(&framework(&["b"], "new"));
    stage.subscribed(said, false);
    assert_eq!(stage.resubscriptions(), 1);
}

#[test]
fn what_the_master_refuses_is_taken_back_and_told() {
    let (old, new) = (framework(&["a"], "old"), framework(&["b"], "new"));
    for by_update in [true, false] {
        let mut stage = Stage::new(old.clone(), by_update);
        stage.configure(&new);
        if by_update {
            stage.answer(refused(false));
        } else {
            stage.tell(Event::Disconnected);
            stage.tell(Event::SubscriptionRefused("no".to_owned()));
        }
        assert_eq!(**stage.core.framework(), old);
        assert_eq!(stage.core.offers_page(stage.now).asked.refused.as_deref(), Some("no"));
        stage.actions.clear();
        stage.subscribe(true);
        stage.configure(&framework(&["a"], "better"));
        stage.answer(FrameworkAnswer::Accepted);
        assert_eq!(stage.core.offers_page(stage.now).asked.refused, None);
        assert_eq!(stage.core.framework().info.webui_url.as_deref(), Some("better"));
    }
}

/// A master that keeps, say, another user refuses every update, but takes the rest from a subscription.
#[test]
fn a_change_that_is_refused_for_what_never_changes_is_told_by_a_subscription() {
    let mut stage = Stage::unsubscribed(framework(&["a"], "old"));
    stage.subscribe(true);
    stage.answer(refused(true));
    assert_eq!(stage.resubscriptions(), 0, "nothing changed");
    stage.configure(&framework(&["b"], "new"));
    assert_eq!((stage.resubscriptions(), stage.updates().len()), (1, 1));
    stage.tell(Event::Disconnected);
    stage.subscribe(true);
    stage.answer(FrameworkAnswer::Accepted);
    stage.configure(&framework(&["b"], "newer"));
    stage.answer(refused(true));
    assert_eq!((stage.resubscriptions(), stage.updates().len()), (2, 3));
    assert_eq!(stage.core.framework().info.webui_url.as_deref(), Some("newer"));
}

#[test]
fn a_change_waits_for_the_answer_to_the_one_before() {
    for (answer, link) in [(FrameworkAnswer::Accepted, "second"), (refused(false), "first")] {
        let mut stage = Stage::new(framework(&["a"], "old"), true);
        stage.configure(&framework(&["a"], "first"));
        stage.configure(&framework(&["a"], "skipped"));
        stage.configure(&framework(&["a"], "second"));
        assert_eq!(stage.updates().len(), 1);
        stage.answer(FrameworkAnswer::Accepted);
        assert_eq!(stage.updates().len(), 2, "the last one counts");
        stage.answer(answer);
        assert_eq!(stage.core.framework().info.webui_url.as_deref(), Some(link));
        // An answer that comes late is none to a later change.
        stage.configure(&framework(&["a"], "third"));
        stage.tell(Event::FrameworkAnswer { number: 1, answer: refused(false) });
        assert_eq!(stage.core.framework().info.webui_url.as_deref(), Some("third"));
    }
}

#[test]
fn an_update_keeps_roles_suppressed_while_nothing_waits() {
    let mut stage = Stage::new(framework(&["a"], "old"), true);
    stage.tell(Event::Agents(Vec::<AgentSeen>::new()));
    stage.run(SECOND * 3);
    assert_eq!(stage.count(|action| *action == Action::Suppress), 1);
    stage.configure(&framework(&["a", "b"], "new"));
    assert_eq!(stage.updates()[0].suppressed_roles, ["a", "b"]);
}
