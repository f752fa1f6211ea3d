//! From a launch to its end.

use std::sync::atomic::Ordering;

use km_kube::keys;
use km_mesos_proto::v1;
use serde_json::json;

use super::world::{World, one, pod};

#[tokio::test]
async fn a_task_is_bound_run_and_reported() {
    let world = World::new().await;
    world.launch("p", one("Never"));
    let running = world.journal.wait("t-p TASK_RUNNING pod-running:p_n").await;
    let bound = world.journal.place("bind p node").unwrap();
    let starting = world.journal.place("t-p TASK_STARTING create-binding-success").unwrap();
    let started = world.journal.place("start uid-p-c-0").unwrap();
    assert!(bound < starting && starting < running && bound < started && started < running);
    let pod = world.api.pod("p").unwrap();
    let annotations = pod.metadata.annotations.unwrap();
    assert_eq!(annotations[keys::TASK_ID], "t-p");
    assert_eq!(annotations[&keys::port_annotation("TCP", 80)], "31000");
    let spec = world.runtime.spec("uid-p-c-0");
    assert_eq!(spec.command, ["run", "me"]);
    assert_eq!(world.runtime.sandbox("uid-p").ports[0].host_port, 31000);
    world.runtime.exit("uid-p-c-0", 0);
    let finished = world.journal.wait("t-p TASK_FINISHED").await;
    let durable = world.journal.place("status p Succeeded").unwrap();
    let removed = world.journal.place("sandbox removed uid-p").unwrap();
    assert!(durable < finished && removed < finished);
    assert_eq!(world.journal.place("delete p"), None, "a pod that ended by itself stays");
}

#[tokio::test]
async fn a_failure_is_told() {
    let world = World::new().await;
    world.launch("p", one("Never"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.runtime.exit("uid-p-c-0", 3);
    world.journal.wait("t-p TASK_FAILED container c exited with code 3 (Error)").await;
    let status = world.api.pod("p").unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
}

/// The scheduler reads the port out of the message, and gives the next pod another one.
#[tokio::test]
async fn a_pod_whose_host_port_another_process_has_fails_soon() {
    let world = World::new().await;
    world.runtime.take_port(31_000);
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_FAILED HostPortTaken: host port 31000/TCP is taken").await;
    let status = world.api.pod("p").unwrap().status.unwrap();
    assert_eq!((status.phase.as_deref(), status.reason.as_deref()), (Some("Failed"), Some("HostPortTaken")));
    assert_eq!(world.journal.place("start uid-p-c-0"), None);
}

#[tokio::test]
async fn the_last_status_is_durable_before_mesos_hears_of_it() {
    let world = World::new().await;
    world.launch("p", one("Never"));
    world.journal.wait("status p Running").await;
    world.api.status_down.store(true, Ordering::SeqCst);
    world.runtime.exit("uid-p-c-0", 0);
    world.journal.wait("status refused").await;
    world.journal.wait("sandbox removed uid-p").await;
    assert_eq!(world.journal.place("t-p TASK_FINISHED"), None);
    world.api.status_down.store(false, Ordering::SeqCst);
    let finished = world.journal.wait("t-p TASK_FINISHED").await;
    assert!(world.journal.place("status p Succeeded").unwrap() < finished);
}

#[tokio::test]
async fn a_deleted_pod_is_stopped_then_deleted_then_reported() {
    let world = World::new().await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.api.delete_gracefully("p", 30);
    let killed = world.journal.wait("t-p TASK_KILLED pod-deleted").await;
    let signal = world.journal.place("signal uid-p-c-0 15").unwrap();
    let deleted = world.journal.place("delete p").unwrap();
    assert!(signal < deleted && deleted < killed);
    assert!(world.api.pod("p").is_none() && world.runtime.is_empty());
}

#[tokio::test]
async fn a_pod_that_vanishes_is_stopped() {
    let world = World::new().await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.api.remove("p");
    world.journal.wait("t-p TASK_KILLED pod-deleted").await;
    assert!(world.runtime.is_empty());
}

#[tokio::test]
async fn a_kill_from_mesos_ends_and_deletes_the_pod() {
    let world = World::new().await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.agent.kill("t-p");
    world.journal.wait("t-p TASK_KILLED pod-deleted").await;
    assert!(world.api.pod("p").is_none());
    world.agent.kill("t-other");
    world.journal.wait("t-other TASK_LOST kill-pod-task").await;
}

#[tokio::test]
async fn crashes_restart_in_place() {
    let world = World::new().await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.runtime.exit("uid-p-c-0", 1);
    world.journal.wait("start uid-p-c-1").await;
    let running = world.journal.lines().iter().filter(|line| line.contains("TASK_RUNNING")).count();
    assert_eq!(running, 1);
}

#[tokio::test]
async fn annotations_are_patched_where_the_binding_loses_them() {
    let world = World::new().await;
    world.api.drops_annotations.store(true, Ordering::SeqCst);
    world.launch("p", one("Always"));
    world.journal.wait("annotate p").await;
    world.journal.wait("t-p TASK_RUNNING").await;
    assert_eq!(world.api.pod("p").unwrap().metadata.annotations.unwrap()[keys::TASK_ID], "t-p");
}

#[tokio::test]
async fn pods_that_are_not_ours_are_not_run() {
    let world = World::new().await;
    let mut elsewhere = pod("far", one("Always"));
    elsewhere.spec.as_mut().unwrap().node_name = Some("other".into());
    let task = |pod: &k8s_openapi::api::core::v1::Pod, id: &str| {
        let mut pod = pod.clone();
        pod.metadata.annotations.get_or_insert_default().insert(keys::TASK_ID.into(), id.into());
        v1::TaskInfo { task_id: id.into(), data: Some(serde_json::to_vec(&pod).unwrap()), ..Default::default() }
    };
    world.api.put(elsewhere.clone());
    world.agent.launch(task(&elsewhere, "t-far"));
    world.journal.wait("t-far TASK_FAILED create-binding-failure").await;
    world.agent.launch(task(&pod("gone", one("Always")), "t-gone"));
    world.journal.wait("t-gone TASK_KILLED pod-deleted").await;
    let mut twin = pod("twin", one("Always"));
    world.api.put(twin.clone());
    twin.metadata.uid = Some("older".into());
    world.agent.launch(task(&twin, "t-twin"));
    world.journal.wait("t-twin TASK_KILLED pod-deleted").await;
    assert!(world.api.pod("twin").is_some(), "the other pod of that name is left alone");
    // Bound here, but without a task.
    let mut stray = pod("stray", one("Always"));
    stray.spec.as_mut().unwrap().node_name = Some("node".into());
    world.api.put(stray);
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    assert!(!world.journal.lines().iter().any(|line| line.starts_with("sandbox") && !line.contains("uid-p")));
}

#[tokio::test]
async fn pods_outlive_the_agent_and_updates_are_repeated() {
    let world = World::with(|agent| agent.acknowledges = false, &[]).await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.agent.hang_up();
    world.journal.wait("subscribe 1 tasks 2 updates").await;
    assert_eq!(world.journal.place("signal"), None);
    world.agent.kill("t-p");
    world.journal.wait("t-p TASK_KILLED").await;
}

#[tokio::test]
async fn without_checkpointing_the_agents_end_is_ours() {
    let world = World::with(|agent| agent.outlived = false, &[]).await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.agent.hang_up();
    let (journal, runtime) = world.ended().await;
    assert!(journal.place("signal uid-p-c-0 15").is_some() && runtime.is_empty());
}

#[tokio::test]
async fn shutdown_ends_everything() {
    let world = World::new().await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.agent.shutdown();
    let api = world.api.clone();
    let (journal, runtime) = world.ended().await;
    assert!(journal.place("t-p TASK_KILLED executor-shutdown").is_some());
    assert!(journal.place("status p Failed").is_some() && api.pod("p").is_some());
    assert!(runtime.is_empty());
}

#[tokio::test]
async fn the_stop_token_and_idleness_end_it_too() {
    let world = World::new().await;
    world.stop.cancel();
    world.ended().await;
    let idle = World::with(|_| {}, &["--suicide-timeout=1ms"]).await;
    idle.ended().await;
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let world = World::new().await;
    let spec = json!({"containers": [{"name": "c", "image": "absent:1"}]});
    world.launch("p", spec);
    let failed = "waiting p ErrImagePull: pulling image \"absent:1\": no such image";
    world.journal.wait(failed).await;
    let missing = json!({"containers": [{"name": "c", "image": "x:1", "envFrom": [{"configMapRef": {"name": "m"}}]}]});
    world.launch("q", missing);
    world.journal.wait("waiting q CreateContainerConfigError: configmap \"m\" not found").await;
}

#[tokio::test]
async fn a_container_is_told_of_services_and_hosts_and_of_the_text_in_config_maps() {
    let world = World::new().await;
    world.api.put_config_map("n", "m", &[("text", "t")]);
    let of = |links: bool| {
        json!({"enableServiceLinks": links, "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a", "b.c"]}], "containers": [{"name": "c", "image": "x:1",
            "envFrom": [{"configMapRef": {"name": "m"}}], "args": ["$(KUBERNETES_SERVICE_HOST)", "$(OF_N_SERVICE_PORT)"]}]})
    };
    for (name, links, port, variables) in [("all", true, "80", 15), ("few", false, "$(OF_N_SERVICE_PORT)", 8)] {
        world.launch(name, of(links));
        world.journal.wait(&format!("t-{name} TASK_RUNNING")).await;
        let spec = world.runtime.spec(&format!("uid-{name}-c-0"));
        assert_eq!((spec.args[0].as_str(), spec.args[1].as_str()), ("10.96.0.1", port));
        assert_eq!(world.runtime.sandbox(&format!("uid-{name}")).hosts, ["10.1.2.3\ta\tb.c"]);
        assert_eq!((&spec.env[0], spec.env.len()), (&("text".into(), "t".into()), variables), "{:?}", spec.env);
    }
}

#[tokio::test]
async fn updates_reach_the_running_pod() {
    let world = World::new().await;
    let mut spec = one("Always");
    spec["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    world.launch("p", spec);
    world.journal.wait("t-p TASK_RUNNING").await;
    let mut pod = world.api.pod("p").unwrap();
    pod.spec.as_mut().unwrap().containers[0].resources =
        serde_json::from_value(json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "64Mi"}})).unwrap();
    world.api.put(pod.clone());
    world.journal.wait("resize uid-p-c-0 512 1000 67108864").await;
    // A thousandth of a CPU more than the task holds.
    pod.spec.as_mut().unwrap().containers[0].resources =
        serde_json::from_value(json!({"requests": {"cpu": "1001m"}, "limits": {"cpu": "2"}})).unwrap();
    world.api.put(pod.clone());
    world.journal.wait("event ResizeInfeasible").await;
    let resizes = world.journal.lines().iter().filter(|line| line.starts_with("resize")).count();
    assert_eq!(resizes, 1);
    pod.spec.as_mut().unwrap().containers[0].image = Some("x:2".into());
    world.api.put(pod);
    world.journal.wait("start uid-p-c-1").await;
    let restarted = world.runtime.spec("uid-p-c-1");
    assert_eq!((restarted.image.as_str(), restarted.cpu_limit_milli), ("x:2", 1000));
}
