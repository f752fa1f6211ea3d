//! The election rule by rule. What two candidates may never do is in `tests/election.rs`.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn record(holder: &str, version: &str) -> Record {
    Record { holder: holder.into(), duration: SECOND * 15, transitions: 3, version: version.into() }
}

fn candidate() -> Election {
    Election::new("me".into(), Timing::default())
}

/// A candidate that took the free Lease at second 0.
fn leader() -> Election {
    let mut election = candidate();
    assert_eq!(election.handle(Duration::ZERO, Event::Tick), [Action::Read]);
    election.handle(Duration::ZERO, Event::Read(Ok(None)));
    let actions = election.handle(Duration::ZERO, Event::Written(Written::Done(record("me", "1"))));
    assert_eq!(actions, [Action::Lead]);
    election
}

fn read(election: &mut Election, now: Duration, found: Option<Record>) -> Vec<Action> {
    assert_eq!(election.handle(now, Event::Tick), [Action::Read], "at {now:?}");
    election.handle(now, Event::Read(Ok(found)))
}

fn is_claim(actions: &[Action], base: Option<&str>) -> bool {
    matches!(actions, [Action::Write(draft)] if draft.holder == "me" && draft.base.as_deref() == base)
}

#[test]
fn a_lease_that_is_missing_is_created_and_a_free_one_is_taken() {
    let actions = read(&mut candidate(), Duration::ZERO, None);
    let draft = Draft { holder: "me".into(), duration: SECOND * 15, transitions: 0, acquired: true, base: None };
    assert_eq!(actions, [Action::Write(draft.clone())]);
    let actions = read(&mut candidate(), Duration::ZERO, Some(record("", "7")));
    assert_eq!(actions, [Action::Write(Draft { transitions: 4, base: Some("7".into()), ..draft })]);
}

#[test]
fn a_held_lease_is_taken_once_it_stayed_unchanged_for_its_duration() {
    let mut election = candidate();
    assert_eq!(read(&mut election, SECOND, Some(record("other", "1"))), []);
    assert_eq!(read(&mut election, SECOND * 10, Some(record("other", "2"))), [], "it was renewed");
    assert_eq!(read(&mut election, SECOND * 24, Some(record("other", "2"))), []);
    assert_eq!(election.next_wakeup(), SECOND * 25, "at the moment when it lapses");
    assert!(is_claim(&read(&mut election, SECOND * 25, Some(record("other", "2"))), Some("2")));
}

#[test]
fn a_change_is_looked_at_at_once() {
    let mut election = candidate();
    read(&mut election, Duration::ZERO, Some(record("other", "1")));
    assert_eq!(election.handle(Duration::from_millis(100), Event::Changed), [Action::Read]);
    let actions = election.handle(Duration::from_millis(110), Event::Read(Ok(Some(record("", "2")))));
    assert!(is_claim(&actions, Some("2")));
}

#[test]
fn a_leader_renews_and_counts_from_when_it_sent_the_renewal() {
    let mut election = leader();
    assert!(is_claim(&election.handle(SECOND * 2, Event::Tick), Some("1")));
    election.handle(SECOND * 5, Event::Written(Written::Done(record("me", "2"))));
    assert!(election.leads(SECOND * 12 - Duration::from_millis(1)) && !election.leads(SECOND * 12));
}

#[test]
fn a_leader_without_renewal_stands_down_at_its_deadline() {
    let mut election = leader();
    election.handle(SECOND * 2, Event::Tick);
    assert_eq!(election.handle(SECOND * 4, Event::Written(Written::Failed)), []);
    assert_eq!(election.handle(SECOND * 6, Event::Tick), [Action::Read], "the write may have arrived");
    election.handle(SECOND * 9, Event::Read(Err(())));
    assert_eq!(election.next_wakeup(), SECOND * 10);
    assert_eq!(election.handle(SECOND * 10, Event::Tick), [Action::StandBy(Why::NotRenewed)]);
    assert_eq!(election.handle(SECOND * 60, Event::Tick), [], "no campaign while the work may go on");
    assert_eq!(election.handle(SECOND * 61, Event::Stopped), [Action::Read]);
    // Nobody else took it: it is still ours on paper.
    assert!(is_claim(&election.handle(SECOND * 61, Event::Read(Ok(Some(record("me", "1"))))), Some("1")));
}

#[test]
fn a_write_in_doubt_that_arrived_is_built_upon() {
    let mut election = leader();
    election.handle(SECOND * 2, Event::Tick);
    election.handle(SECOND * 3, Event::Written(Written::Failed));
    election.handle(SECOND * 5, Event::Tick);
    let actions = election.handle(SECOND * 5, Event::Read(Ok(Some(record("me", "2")))));
    assert!(is_claim(&actions, Some("2")));
    assert!(!election.leads(SECOND * 10), "it isn't counted as a renewal");
}

#[test]
fn a_leader_that_lost_its_lease_stands_down_at_once() {
    for (found, why) in [(Some(record("other", "9")), Why::TakenOver("other".into())), (None, Why::NotRenewed)] {
        let mut election = leader();
        election.handle(SECOND * 2, Event::Tick);
        assert_eq!(election.handle(SECOND * 2, Event::Written(Written::Conflict)), [Action::Read]);
        assert_eq!(election.handle(SECOND * 2, Event::Read(Ok(found))), [Action::StandBy(why)]);
    }
}

#[test]
fn a_deleted_lease_still_protects_its_last_holder() {
    let mut election = candidate();
    read(&mut election, Duration::ZERO, Some(record("other", "1")));
    assert_eq!(read(&mut election, SECOND * 2, None), []);
    assert!(is_claim(&read(&mut election, SECOND * 15, None), None));
}

#[test]
fn a_hand_over_stops_first_releases_then_and_lets_another_one_try() {
    let mut election = leader();
    assert_eq!(election.handle(SECOND, Event::HandOver), [Action::StandBy(Why::HandedOver)]);
    assert!(!election.leads(SECOND) && !election.is_at_rest());
    let released =
        Draft { holder: String::new(), duration: SECOND, transitions: 3, acquired: false, base: Some("1".into()) };
    assert_eq!(election.handle(SECOND, Event::Stopped), [Action::Write(released)]);
    election.handle(SECOND, Event::Written(Written::Done(record("", "2"))));
    assert!(election.is_at_rest());
    assert_eq!(read(&mut election, SECOND * 3, Some(record("", "2"))), []);
    assert!(is_claim(&read(&mut election, SECOND * 16, Some(record("", "2"))), Some("2")), "nobody else wanted it");
}

#[test]
fn a_hand_over_during_a_renewal_releases_what_the_renewal_made() {
    let mut election = leader();
    election.handle(SECOND * 2, Event::Tick);
    election.handle(SECOND * 2, Event::HandOver);
    election.handle(SECOND * 2, Event::Stopped);
    let actions = election.handle(SECOND * 3, Event::Written(Written::Done(record("me", "2"))));
    assert!(
        matches!(&actions[..], [Action::Write(draft)] if draft.holder.is_empty() && draft.base.as_deref() == Some("2"))
    );
    // The release may have arrived or not: it is looked up and, if it didn't, sent again.
    election.handle(SECOND * 4, Event::Written(Written::Failed));
    let actions = read(&mut election, SECOND * 6, Some(record("me", "2")));
    assert!(matches!(&actions[..], [Action::Write(draft)] if draft.holder.is_empty()));
}

#[test]
fn a_standby_has_nothing_to_hand_over() {
    let mut election = candidate();
    read(&mut election, Duration::ZERO, Some(record("other", "1")));
    assert_eq!(election.handle(SECOND, Event::HandOver), []);
    assert!(election.is_at_rest());
}

#[test]
fn an_acquisition_whose_answer_comes_after_the_deadline_is_not_acted_on() {
    let mut election = candidate();
    read(&mut election, Duration::ZERO, None);
    let actions = election.handle(SECOND * 11, Event::Written(Written::Done(record("me", "1"))));
    assert_eq!(actions, [Action::Read]);
}
