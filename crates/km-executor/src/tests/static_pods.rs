//! Static pods beside tasks.

use k8s_openapi::api::core::v1::Pod;
use km_kube::keys;
use km_podtask::static_pods;

use super::world::{World, one};

fn static_pod() -> Pod {
    let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: 'n'}\n\
                    spec: {containers: [{name: c, image: x:1, imagePullPolicy: IfNotPresent}]}";
    static_pods::parse("web.yaml", manifest).unwrap()
}

#[tokio::test]
async fn static_pods_run_from_the_start_to_the_end_and_are_mirrored() {
    let data = static_pods::pack(&[static_pod()]).unwrap();
    let world = World::with(|agent| agent.data = data, &[]).await;
    world.journal.wait("status web-node Running").await;
    let mirror = world.api.pod("web-node").unwrap();
    let annotations = mirror.metadata.annotations.clone().unwrap();
    assert_eq!(annotations[keys::BINDING_HOST], "node");
    assert_eq!(annotations[keys::STATIC_POD_FILENAME], "web.yaml");
    let uid = annotations[keys::MIRROR_POD].clone();
    assert_ne!(mirror.metadata.uid.as_ref(), Some(&uid), "the mirror is an object of its own");
    let spec = world.runtime.spec(&format!("{uid}-c-0"));
    assert_eq!(spec.env, [("MESOS_EXECUTOR_CONTAINER_UUID".to_owned(), "mesos-container".to_owned())]);
    // It is as other pods are: what crashes starts again, without a task.
    world.runtime.exit(&format!("{uid}-c-0"), 1);
    world.journal.wait(&format!("start {uid}-c-1")).await;
    // Who deletes the mirror gets a new one; the pod goes on.
    world.api.delete_gracefully("web-node", 30);
    world.journal.wait("delete web-node").await;
    let again = |lines: &[String]| lines.iter().filter(|line| *line == "create web-node").count() == 2;
    world.journal.wait_for("a second mirror", again).await;
    assert!(world.journal.place("sandbox removed").is_none());
    // Tasks come and go beside it.
    world.launch("p", one("Never"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world.agent.shutdown();
    let api = world.api.clone();
    let (journal, runtime) = world.ended().await;
    assert!(journal.place("t-p TASK_KILLED executor-shutdown").is_some());
    assert!(runtime.is_empty() && api.pod("web-node").is_none(), "no mirror without its pod");
}
