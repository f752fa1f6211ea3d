//! Roles: what is reserved for one, and how much one may have.

use km_testkit::eventually;
use serde_json::{Value, json};

use crate::{setup::Setup, stage::Stage, workload::Workload};

const PROD: &str = "[scheduler]\nmesos-framework-roles = *,prod\nmesos-min-allocatable-resources = cpus:0.1;mem:16\n";

#[test]
fn pods_use_what_is_reserved_for_their_role_and_no_more_than_its_quota() {
    let mut stage = Stage::set_without_scheduler(Setup::default());
    let file = stage.file("scheduler.ini", PROD);
    stage.add_scheduler_flags(&[format!("--scheduler-config={}", file.display())]);
    stage.start_scheduler();
    stage.agents_are_back();
    let (kubectl, operator) = (stage.kubectl.clone(), stage.operator);
    let frameworks = operator.call(&json!({ "type": "GET_FRAMEWORKS" }));
    let framework = &frameworks["get_frameworks"]["frameworks"][0]["framework_info"];
    assert_eq!(framework["roles"], json!(["prod"]), "unreserved resources are taken in the name of the role");
    let minima = &framework["offer_filters"]["prod"]["min_allocatable_resources"]["quantities"];
    assert_eq!(minima[0]["quantities"]["cpus"]["value"], 0.1, "{minima}");

    // A role with a limit gets that much, and its pods wait with a reason; with a higher limit they run.
    let limit = |cpus: f64, mem: f64| {
        let limits = json!({ "cpus": { "value": cpus }, "mem": { "value": mem } });
        operator.call(&json!({ "type": "UPDATE_QUOTA", "update_quota": {
            "quota_configs": [{ "role": "prod", "limits": limits }],
        }}));
    };
    limit(1.0, 1024.0);
    let limited = Workload { cpu: "300m", ..Workload::of("limited", 5) };
    limited.apply(&kubectl);
    eventually("some run, and the others have a reason to wait", || {
        let pods = limited.pods(&kubectl)?;
        let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        let waiting = pods.iter().filter(|pod| condition(pod, "PodScheduled")["reason"] == "Unschedulable").count();
        match (running, waiting) {
            (1.., 1..) if running + waiting == pods.len() => Ok(()),
            counts => Err(format!("{counts:?} of {} pods run and wait", pods.len())),
        }
    });
    let allocated = allocated_to_role(&operator.json("/roles").unwrap(), "prod");
    assert!(allocated <= 1000, "{allocated} mCPU");
    stage.live_tasks_are_bound_pods();
    limit(8.0, 8192.0);
    limited.runs(&kubectl);
    stage.live_tasks_are_bound_pods();

    // An operator reserves a part of one agent; pods of that role find it, wherever else there would be room.
    let amount = |name: &str, value: f64| {
        json!({
            "name": name, "type": "SCALAR", "scalar": { "value": value },
            "reservations": [{ "type": "DYNAMIC", "role": "prod" }],
        })
    };
    operator.call(&json!({ "type": "RESERVE_RESOURCES", "reserve_resources": {
        "agent_id": { "value": operator.agent_id("agent-1") },
        "resources": [amount("cpus", 1.0), amount("mem", 512.0)],
    }}));
    let reserved = Workload { roles: "prod", cpu: "200m", ..Workload::of("reserved", 2) };
    reserved.apply(&kubectl);
    reserved.runs(&kubectl);
    let agent = operator.agents().unwrap()["agent-1"].clone();
    let used = used_of_role(&agent, "prod");
    assert!(used >= 400, "{used} mCPU of the reservation are in use: {}", agent["used_resources_full"]);
    stage.live_tasks_are_bound_pods();
    roles_and_constraints_change(&stage, &limited, &reserved);
    stage.strike();
}

/// Without another subscription, and no pod that runs notices.
fn roles_and_constraints_change(stage: &Stage, limited: &Workload, reserved: &Workload) {
    let (kubectl, operator) = (&stage.kubectl, stage.operator);
    let framework = |what: &str, pleases: &dyn Fn(&Value) -> bool| {
        let mut found = Value::Null;
        eventually(what, || {
            found = operator.framework()?;
            if pleases(&found) { Ok(()) } else { Err(found.to_string()) }
        });
        found
    };
    let change = |settings: &str| {
        stage.file("scheduler.ini", settings);
        stage.hang_up_scheduler();
    };
    let before = framework("the role is there", &|found| found["roles"] == json!(["prod"]));
    let tasks = operator.live_tasks().unwrap();
    change("[scheduler]\nframework-weburi = http://changed");
    let after = framework("the role is gone", &|found| found["roles"] == json!(["*"]));
    assert_eq!(after["webui_url"], "http://changed");
    limited.runs(kubectl);
    reserved.runs(kubectl);
    assert_eq!(operator.live_tasks().unwrap().into_keys().collect::<Vec<_>>(), tasks.into_keys().collect::<Vec<_>>());
    stage.live_tasks_are_bound_pods();

    change(&format!("{PROD}mesos-offer-constraints = [\"hostname\",\"LIKE\",\"agent-1\"]\n"));
    let again = framework("the role is back", &|found| found["roles"] == json!(["prod"]));
    for field in ["id", "registered_time", "reregistered_time"] {
        assert_eq!(again[field], before[field], "{field}");
    }
    assert!(again["offer_constraints"]["role_constraints"]["prod"].is_object(), "{again}");
    let confined = Workload { roles: "prod", cpu: "100m", ..Workload::of("confined", 3) };
    confined.apply(kubectl);
    confined.runs(kubectl);
    let pods = confined.pods(kubectl).unwrap();
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == "agent-1"), "{pods:?}");
    limited.runs(kubectl);
    stage.live_tasks_are_bound_pods();
}

fn condition(pod: &Value, kind: &str) -> Value {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// Thousandths of a CPU of an agent that are in use and reserved for a role.
fn used_of_role(agent: &Value, role: &str) -> i64 {
    let used = agent["used_resources_full"].as_array().into_iter().flatten();
    let reserved = |resource: &&Value| resource["reservations"][0]["role"] == role && resource["name"] == "cpus";
    let cpus: f64 = used.filter(reserved).filter_map(|resource| resource["scalar"]["value"].as_f64()).sum();
    (cpus * 1000.0).round() as i64
}

/// Thousandths of a CPU that a role has, as the master lists roles.
fn allocated_to_role(roles: &Value, role: &str) -> i64 {
    let mut all = roles["roles"].as_array().into_iter().flatten();
    let found = all.find(|one| one["name"] == role).expect("the role is known");
    (found["allocated"]["cpus"].as_f64().unwrap_or(0.0) * 1000.0).round() as i64
}
