//! The life of offers, by table and by random interleaving.

use std::{collections::BTreeMap, time::Duration};

use km_mesos_proto::v1;
use km_offers::{Action, DeclineReason, End, Event, Pool, Settings};
use proptest::prelude::*;

const TTL: Duration = Duration::from_millis(250);
const LINGER: Duration = Duration::from_millis(500);

fn pool() -> Pool {
    Pool::new(Settings { ttl: TTL, linger: LINGER })
}

fn id(value: &str) -> v1::OfferId {
    v1::OfferId { value: value.to_owned() }
}

fn offer(name: &str, agent: &str, hostname: &str) -> v1::Offer {
    v1::Offer {
        id: id(name),
        agent_id: v1::AgentId { value: agent.to_owned() },
        hostname: hostname.to_owned(),
        ..v1::Offer::default()
    }
}

fn ends(actions: &[Action]) -> Vec<(String, End)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Ended { offer, end, .. } => Some((offer.value.clone(), *end)),
            _ => None,
        })
        .collect()
}

fn declined(actions: &[Action]) -> Vec<String> {
    actions
        .iter()
        .flat_map(|action| match action {
            Action::Decline { offers, .. } => offers.iter().map(|id| id.value.clone()).collect(),
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn an_unused_offer_is_declined_after_its_time_and_lingers() {
    let mut pool = pool();
    pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1")]));
    assert_eq!(pool.next_deadline(), Some(TTL));
    assert!(declined(&pool.handle(TTL - Duration::from_millis(1), Event::Tick)).is_empty());
    assert_eq!(declined(&pool.handle(TTL, Event::Tick)), ["o1"]);
    assert!(pool.get("o1").is_none() && pool.lingers("o1"));
    pool.handle(TTL + LINGER, Event::Tick);
    assert!(!pool.lingers("o1"));
}

#[test]
fn an_acquired_offer_is_not_declined_until_it_is_released() {
    let mut pool = pool();
    pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1")]));
    pool.handle(Duration::ZERO, Event::Acquired(vec![id("o1")]));
    assert!(declined(&pool.handle(TTL * 3, Event::Tick)).is_empty());
    pool.handle(TTL * 3, Event::Released(vec![id("o1")]));
    assert_eq!(declined(&pool.handle(TTL * 3, Event::Tick)), ["o1"]);
}

#[test]
fn a_rescinded_or_accepted_offer_is_never_declined() {
    let mut pool = pool();
    pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1"), offer("o2", "a1", "h1")]));
    assert_eq!(ends(&pool.handle(Duration::ZERO, Event::Rescinded(id("o1")))), [("o1".to_owned(), End::Rescinded)]);
    assert_eq!(ends(&pool.handle(Duration::ZERO, Event::Accepted(vec![id("o2")]))), [("o2".to_owned(), End::Accepted)]);
    assert!(pool.handle(Duration::ZERO, Event::Rescinded(id("unknown"))).is_empty());
    assert!(declined(&pool.handle(TTL * 4, Event::Tick)).is_empty());
}

#[test]
fn a_lost_agent_takes_only_its_own_offers() {
    let mut pool = pool();
    pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1"), offer("o2", "a2", "h2")]));
    let actions = pool.handle(Duration::ZERO, Event::AgentLost(v1::AgentId { value: "a1".into() }));
    assert_eq!(ends(&actions), [("o1".to_owned(), End::Lost)]);
    assert_eq!(pool.iter().map(|held| held.offer.id.value.as_str()).collect::<Vec<_>>(), ["o2"]);
    pool.handle(Duration::ZERO, Event::Disconnected);
    assert!(pool.is_empty());
}

#[test]
fn refused_offers_are_declined_in_one_call() {
    let mut pool = pool();
    pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1"), offer("o2", "a2", "h2")]));
    let all = vec![id("o1"), id("o2"), id("unknown")];
    let actions = pool.handle(Duration::ZERO, Event::Refused(all, DeclineReason::Idle));
    let calls = actions.iter().filter(|action| matches!(action, Action::Decline { .. })).count();
    assert_eq!((calls, declined(&actions)), (1, vec!["o1".to_owned(), "o2".to_owned()]));
}

#[test]
fn only_the_listener_that_the_offer_pleases_wakes_and_only_once() {
    let mut pool = pool();
    for host in ["h1", "h2"] {
        assert!(pool.listen(host, Box::new(move |offer| offer.hostname == host)).is_empty());
    }
    let actions = pool.handle(Duration::ZERO, Event::Received(vec![offer("o1", "a1", "h1")]));
    assert_eq!(actions, [Action::Wake("h1".into())]);
    assert!(pool.handle(Duration::ZERO, Event::Received(vec![offer("o2", "a1", "h1")])).is_empty());
    pool.forget_listener("h2");
    assert!(pool.handle(Duration::ZERO, Event::Received(vec![offer("o3", "a2", "h2")])).is_empty());
    assert_eq!(pool.listen("late", Box::new(|offer| offer.hostname == "h2")), [Action::Wake("late".into())]);
}

#[derive(Clone, Debug)]
enum Step {
    Receive(u8, u8),
    Rescind(u8),
    Acquire(u8),
    Release(u8),
    Accept(u8),
    Refuse(u8),
    AgentLost(u8),
    Disconnect,
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..20u8, 0..4u8).prop_map(|(offer, agent)| Step::Receive(offer, agent)),
        1 => (0..20u8).prop_map(Step::Rescind),
        2 => (0..20u8).prop_map(Step::Acquire),
        1 => (0..20u8).prop_map(Step::Release),
        2 => (0..20u8).prop_map(Step::Accept),
        1 => (0..20u8).prop_map(Step::Refuse),
        1 => (0..4u8).prop_map(Step::AgentLost),
        1 => Just(Step::Disconnect),
        3 => (0..400u16).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Invariant 1: whatever the order of events, each offer that came in ends exactly once.
    #[test]
    fn each_offer_ends_exactly_once(steps in proptest::collection::vec(step(), 1..200)) {
        let mut pool = Pool::new(Settings { ttl: TTL, linger: Duration::from_secs(3600) });
        let mut now = Duration::ZERO;
        let mut received: BTreeMap<String, ()> = BTreeMap::new();
        let mut ended: BTreeMap<String, u32> = BTreeMap::new();
        let name = |number: u8| format!("o{number}");
        let last = [Step::Disconnect];
        for step in steps.iter().chain(&last) {
            let event = match step {
                Step::Receive(number, agent) => {
                    received.insert(name(*number), ());
                    Event::Received(vec![offer(&name(*number), &format!("a{agent}"), "h")])
                }
                Step::Rescind(number) => Event::Rescinded(id(&name(*number))),
                Step::Acquire(number) => Event::Acquired(vec![id(&name(*number))]),
                Step::Release(number) => Event::Released(vec![id(&name(*number))]),
                Step::Accept(number) => Event::Accepted(vec![id(&name(*number))]),
                Step::Refuse(number) => Event::Refused(vec![id(&name(*number))], DeclineReason::Idle),
                Step::AgentLost(agent) => Event::AgentLost(v1::AgentId { value: format!("a{agent}") }),
                Step::Disconnect => Event::Disconnected,
                Step::Wait(millis) => {
                    now += Duration::from_millis(u64::from(*millis));
                    Event::Tick
                }
            };
            let actions = pool.handle(now, event);
            for (offer, _) in ends(&actions) {
                *ended.entry(offer).or_default() += 1;
            }
            let declined_now = declined(&actions);
            let declared: Vec<String> = ends(&actions)
                .into_iter()
                .filter(|(_, end)| matches!(end, End::Declined(_)))
                .map(|(offer, _)| offer)
                .collect();
            prop_assert_eq!(declined_now, declared);
        }
        prop_assert!(pool.is_empty());
        prop_assert_eq!(ended.keys().collect::<Vec<_>>(), received.keys().collect::<Vec<_>>());
        prop_assert!(ended.values().all(|count| *count == 1), "{ended:?}");
    }
}
