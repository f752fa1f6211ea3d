//! Agents that are lost and come back, are drained, and are gone for good.

use std::collections::BTreeSet;

use km_testkit::eventually;

use crate::{setup::Setup, stage::Stage, workload::Workload};

#[test]
fn a_lost_agents_pods_are_adopted_and_those_of_a_drained_or_gone_one_move() {
    // An agent is drained once our executor has ended there, too: it doesn't wait long for further pods here.
    let setup = Setup::default().with_scheduler_flag("--executor-suicide-timeout=2s");
    let mut stage = Stage::set(setup.with_agents(3).loses_agents_soon());
    let (kubectl, operator) = (stage.kubectl.clone(), stage.operator);
    let mut idle = Workload::of("idle", 9);
    idle.apply(&kubectl);
    idle.runs(&kubectl);
    stage.live_tasks_are_bound_pods();
    let names = |last: u16| (0..=last).map(|number| format!("agent-{number}")).collect::<BTreeSet<String>>();
    assert_eq!(idle.nodes(&kubectl), Ok(names(2)), "otherwise the losses would lose nothing");

    // Lost: silent for longer than the master's patience, while its pods run on.
    let before = idle.places(&kubectl).unwrap();
    stage.mesos("stop agent-0 --signal STOP");
    operator.wait_for("agent-0", false);
    stage.mesos("stop agent-0 --signal CONT");
    stage.agents_are_back();
    stage.live_tasks_are_bound_pods();
    assert_eq!(idle.places(&kubectl).unwrap(), before, "the same pods in the same containers");

    // Drained: Mesos itself kills the tasks, and gives the agent no work until it is reactivated.
    operator.tell_agent("DRAIN_AGENT", "agent-1");
    idle.leaves(&kubectl, "agent-1");
    stage.live_tasks_are_bound_pods();
    eventually("agent-1 is drained", || match operator.agents()?["agent-1"]["drain_info"]["state"].as_str() {
        Some("DRAINED") => Ok(()),
        state => Err(format!("{state:?}")),
    });
    eventually("agent-1's executor has ended", || match operator.executors_on("agent-1")? {
        0 => Ok(()),
        count => Err(format!("{count} executors")),
    });
    operator.tell_agent("REACTIVATE_AGENT", "agent-1");
    stage.agents_are_back();
    idle.replicas = 15;
    idle.apply(&kubectl);
    idle.runs(&kubectl);
    stage.live_tasks_are_bound_pods();

    // Gone: the operator says that it never comes back.
    operator.tell_agent("MARK_AGENT_GONE", "agent-2");
    idle.leaves(&kubectl, "agent-2");
    stage.live_tasks_are_bound_pods();
    eventually("its node is gone", || match kubectl.try_run("get nodes -o name")? {
        nodes if nodes.contains("agent-2") => Err(nodes),
        _ => Ok(()),
    });
    stage.strike();
}
