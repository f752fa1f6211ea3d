//! Metrics move with what happens, and docs/scheduler.md lists exactly those that are there.

use std::collections::{BTreeMap, BTreeSet};

use km_mesos_proto::v1;
use km_offers::DeclineReason;
use km_podtask::PodKey;
use prometheus_client::encoding::text::encode;

use super::*;
use crate::core::Tally;

fn offer(id: &str, hostname: &str) -> v1::Offer {
    v1::Offer { id: id.into(), hostname: hostname.to_owned(), ..v1::Offer::default() }
}

fn accept(batch: u64, offer: &str, tasks: usize) -> Action {
    let tasks = vec![v1::TaskInfo::default(); tasks];
    Action::Accept { batch, offers: vec![offer.into()], tasks, refuse: Duration::ZERO }
}

fn result(batch: u64, outcome: CallOutcome) -> Event {
    Event::AcceptResult { batch, outcome }
}

/// Metrics of a scheduler in whose life everything happened once.
fn lived() -> Metrics {
    let metrics = Metrics::default();
    let offers = ["o1", "o2", "o3", "o4", "o5"].map(|id| offer(id, if id == "o5" { "b" } else { "a" }));
    metrics.count_event(&Event::Offers(offers.to_vec()));
    let declined =
        Action::Decline { offers: vec!["o1".into()], refuse: Duration::ZERO, reason: DeclineReason::Expired };
    metrics.count_action(&declined);
    metrics.count_event(&Event::Rescinded("o2".into()));
    metrics.count_event(&Event::Rescinded("unknown".into()));
    metrics.count_action(&accept(1, "o3", 2));
    metrics.count_event(&result(1, CallOutcome::Accepted));
    metrics.count_action(&accept(2, "o4", 1));
    metrics.count_event(&result(2, CallOutcome::Refused));
    metrics.reloaded("changed");
    metrics.count_event(&Event::FrameworkAnswer { number: 1, answer: FrameworkAnswer::Accepted });
    metrics.count_event(&Event::SubscriptionRefused("no such role".to_owned()));
    let reason = Some(task_status::Reason::Reconciliation as i32);
    let state = TaskState::TaskRunning as i32;
    metrics.count_event(&Event::Update(Box::new(TaskStatus { state, reason, ..TaskStatus::default() })));
    metrics.count_action(&Action::PatchPodStatus {
        op: 0,
        pod: PodKey::new("", "web"),
        uid: String::new(),
        reason: String::new(),
        message: String::new(),
    });
    let time = Duration::from_millis(1500);
    let times =
        [Timing::QueueWait(time), Timing::BindLatency(time), Timing::Reconciliation(time), Timing::Scheduling(time)];
    times.into_iter().for_each(|timing| metrics.count_action(&Action::Observe(timing)));
    let tally = Tally { requested: 3, executed: 2, cancelled: 1 };
    let waiting = Waiting { active: 4, unschedulable: 5, pods: 6, ..Waiting::default() };
    metrics.show(&Tallies { explicit: tally, implicit: Tally::default() }, &waiting);
    metrics
}

fn text(metrics: &Metrics) -> String {
    let mut text = String::new();
    encode(&mut text, &metrics.registry()).expect("a string takes everything");
    text
}

#[test]
fn metrics_move_as_things_happen() {
    let text = text(&lived());
    for line in [
        "mesos_offers_received{hostname=\"a\"} 4",
        "mesos_offers_received{hostname=\"b\"} 1",
        "mesos_offers_declined{hostname=\"a\",reason=\"expired\"} 1",
        "mesos_offers_declined{hostname=\"a\",reason=\"rescinded\"} 1",
        "mesos_offers_acquired{hostname=\"a\"} 2",
        "mesos_offers_released{hostname=\"a\"} 1",
        "mesos_scheduler_status_updates{source=\"none\",reason=\"REASON_RECONCILIATION\",state=\"TASK_RUNNING\"} 1",
        "mesos_scheduler_queue_wait_time_microseconds_sum 1500000.0",
        "mesos_scheduler_bind_latency_microseconds_count 1",
        "mesos_scheduler_reconciliation_latency_microseconds_count 1",
        "mesos_scheduler_reconciliation_requested{kind=\"explicit\"} 3",
        "mesos_scheduler_reconciliation_executed{kind=\"explicit\"} 2",
        "mesos_scheduler_reconciliation_cancelled{kind=\"explicit\"} 1",
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 2",
        "scheduler_schedule_attempts_total{result=\"error\",profile=\"default-scheduler\"} 1",
        "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"default-scheduler\"} 1",
        "scheduler_pending_pods{queue=\"active\"} 4",
        "scheduler_pending_pods{queue=\"unschedulable\"} 5",
        "scheduler_pending_pods{queue=\"gated\"} 0",
        "scheduler_scheduler_cache_size{type=\"pods\"} 6",
        "scheduler_pod_scheduling_sli_duration_seconds_sum 1.5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
    }
    assert!(text.contains("mesos_runtime_panics "), "{text}");
}

/// Name, type and labels of each metric in the text format.
fn exported(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut all: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            current = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            all.insert(current.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let labels =
                line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
            let names = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
            // The bounds of a histogram are no label of its own.
            let names = names.filter(|name| name != "le");
            all.entry(current.clone()).or_default().1.extend(names);
        }
    }
    all
}

#[test]
fn the_page_lists_what_is_exported() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scheduler.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let section = page.split("## Metrics\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the section");
    let mut documented = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<String> = row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        let labels = cells[2].split(", ").filter(|label| *label != "–").map(str::to_owned).collect();
        documented.insert(cells[0].clone(), (cells[1].clone(), labels));
    }
    assert_eq!(documented, exported(&text(&lived())));
}
