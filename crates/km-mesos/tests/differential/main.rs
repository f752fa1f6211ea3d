//! Fidelity by comparison: scripts of HTTP calls are played to Apache Mesos 1.11 and to the embedded master and
//! agents, and the recordings must be equal. README.md beside this file says how, and what is covered.

mod agents;
mod cluster;
mod compare;
mod control;
mod executor;
mod framework;
mod normal;
mod operation;
mod player;
mod scheduler;
mod scripts;
mod stream;

use cluster::Setup;
use compare::compare;
use scripts::{
    accept, auth, constraints, drain, events, executors, failover, feedback, flags, launch, lost, maintenance, masters,
    offers, operations, quota, reads, recovery, reservations, restarts, shares, subscribe, tasks, update_framework,
    volumes, writes,
};

fn agents(agents: usize) -> Setup {
    Setup { agents, ..Setup::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions() {
    compare(&agents(1), &[subscribe::HTTP, subscribe::SUBSCRIPTIONS, failover::FAILOVER]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offers_of_one_agent() {
    compare(&agents(1), &[update_framework::UPDATE_FRAMEWORK, offers::OFFERS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offers_of_two_agents() {
    compare(
        &agents(2),
        &[
            offers::OFFERS_OF_TWO_AGENTS,
            accept::ACCEPT_OF_TWO_AGENTS,
            launch::LAUNCH_ON_TWO_AGENTS,
            constraints::CONSTRAINTS,
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_one_agent() {
    compare(&agents(1), &[accept::ACCEPT, launch::LAUNCH, tasks::TASKS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quota_of_one_agent() {
    compare(&agents(1), &[reservations::RESERVATIONS, quota::QUOTA]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_of_frameworks() {
    compare(&agents(1), &[operations::OPERATIONS, feedback::FEEDBACK, volumes::VOLUMES]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_of_one_agent() {
    compare(&agents(1), &[reads::READS, executors::EXECUTORS, writes::WRITES, events::EVENTS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_of_four_agents() {
    compare(&agents(4), &[shares::SHARES_OF_FOUR_AGENTS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_flags() {
    let master_flags = flags::FLAGS.map(str::to_owned).to_vec();
    compare(&Setup { master_flags, ..agents(1) }, &[flags::WITH_FLAGS]).await;
    compare(&agents(0), &[flags::EMPTY]).await;
    let master_flags = flags::ROLES.map(str::to_owned).to_vec();
    compare(&Setup { master_flags, ..agents(0) }, &[flags::EMPTY_WITH_ROLES]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_parts() {
    let master_flags = restarts::FLAGS.map(str::to_owned).to_vec();
    compare(&Setup { master_flags, ..agents(1) }, &[failover::RETRIES, restarts::RESTARTS, masters::MASTERS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_are_asked() {
    let cases = [(&auth::ASKS_FRAMEWORKS[..], auth::OF_FRAMEWORKS), (&auth::ASKS_WRITERS[..], auth::OF_WRITERS)];
    for (flags, scripts) in cases {
        let master_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let (login, files) = (Some(auth::LOGIN), vec![auth::CREDENTIALS]);
        compare(&Setup { master_flags, login, files, ..agents(1) }, &[scripts]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_are_drained() {
    compare(&agents(1), &[auth::OF_NOBODY, drain::DRAIN, drain::DRAIN_WHILE_AWAY, maintenance::DOWN]).await;
    compare(&agents(2), &[maintenance::MAINTENANCE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_are_lost() {
    let master_flags = lost::FLAGS.map(str::to_owned).to_vec();
    let setup = Setup { master_flags, ..agents(2) };
    compare(&setup, &[lost::LOST]).await;
    let agent_flags = vec!["executor_reregistration_timeout=5secs".to_owned()];
    compare(&Setup { agent_flags, ..setup }, &[lost::UNSEEN]).await;
    compare(&agents(2), &[lost::GONE]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_recover() {
    let flag = |flag: &str| vec![flag.to_owned()];
    let agent_flags = flag("executor_reregistration_timeout=3secs");
    compare(&Setup { agent_flags, ..agents(1) }, &[recovery::RECOVERY]).await;
    let agent_flags = flag(recovery::PLAIN);
    compare(&Setup { agent_flags, ..agents(1) }, &[recovery::RECONFIGURATION]).await;
    let agent_flags = flag("executor_registration_timeout=1secs");
    compare(&Setup { agent_flags, ..agents(1) }, &[tasks::SLOW]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_kind_of_resource() {
    for resources in ["cpus:2;mem:0;disk:0;ports:[31000-31001]", "cpus:0;mem:200;disk:0;ports:[31000-31001]"] {
        let agent_flags = vec![format!("resources={resources}")];
        compare(&Setup { agent_flags, ..agents(1) }, &[flags::ONE_KIND]).await;
    }
}
