//! More agents and pods than fit into a glance.

use km_testkit::eventually_within;
use std::time::Duration;

use crate::{setup::Setup, stage::Stage, workload::Workload};

const AGENTS: u16 = 10;
/// As many as two cores start in a minute or so in a debug build.
const PODS: u32 = 300;

#[test]
fn many_pods_on_many_agents_come_and_go() {
    let setup = Setup {
        resources: "cpus:8;mem:8192;disk:10240;ports:[3{n}000-3{n}099]",
        ..Setup::default().with_agents(AGENTS).with_scheduler_flag("--placement=spread")
    };
    let mut stage = Stage::set(setup);
    let kubectl = stage.kubectl.clone();
    let mut many = Workload::of("many", PODS);
    many.apply(&kubectl);
    let patience = Duration::from_secs(240);
    let count = |workload: &Workload| {
        eventually_within(patience, "all pods are there", || {
            let text = kubectl.try_run("get deployment many -o jsonpath={.status.readyReplicas}")?;
            if text == workload.replicas.to_string() { Ok(()) } else { Err(format!("{text} are ready")) }
        });
    };
    count(&many);
    many.runs(&kubectl);
    stage.live_tasks_are_bound_pods();
    assert_eq!(many.nodes(&kubectl).unwrap().len(), usize::from(AGENTS), "every agent has a part of them");

    many.replicas = 10;
    many.apply(&kubectl);
    many.runs(&kubectl);
    stage.live_tasks_are_bound_pods();
    stage.strike();
}
