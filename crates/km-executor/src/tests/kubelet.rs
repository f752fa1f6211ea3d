//! The kubelet API over TLS.

use super::world::{World, one};

const LOG: &str = "2026-01-01T00:00:00Z stdout F hello\n2026-01-01T00:00:01Z stdout F again\n";

fn client() -> reqwest::Client {
    reqwest::Client::builder().tls_danger_accept_invalid_certs(true).no_proxy().build().unwrap()
}

async fn get(world: &World, path: &str) -> (u16, String) {
    let answer = client().get(format!("https://{}{path}", world.kubelet)).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn world() -> World {
    let world = World::with(|_| {}, &["--anonymous-auth"]).await;
    world.launch("p", one("Always"));
    world.journal.wait("t-p TASK_RUNNING").await;
    world
}

#[tokio::test]
async fn logs_of_running_previous_and_ended_containers() {
    let world = world().await;
    world.runtime.write_log("uid-p-c-0", LOG);
    assert_eq!(get(&world, "/containerLogs/n/p/c").await, (200, "hello\nagain\n".into()));
    assert_eq!(get(&world, "/containerLogs/n/p/c?tailLines=1").await, (200, "again\n".into()));
    assert_eq!(get(&world, "/containerLogs/n/p/c?tailLines=x").await.0, 400);
    assert_eq!(get(&world, "/containerLogs/n/p/c?previous=true").await.0, 400);
    assert_eq!(get(&world, "/containerLogs/n/p/none").await.0, 404);
    assert_eq!(get(&world, "/containerLogs/n/none/c").await.0, 404);
    let url = format!("https://{}/containerLogs/n/p/c?follow=true", world.kubelet);
    let mut following = client().get(url).send().await.unwrap();
    let mut text = following.chunk().await.unwrap().unwrap().to_vec();
    world.runtime.write_log("uid-p-c-0", &format!("{LOG}2026-01-01T00:00:02Z stdout F end\n"));
    world.runtime.exit("uid-p-c-0", 1);
    while let Some(chunk) = following.chunk().await.unwrap() {
        text.extend(chunk);
    }
    assert_eq!(text, b"hello\nagain\nend\n", "following ends with the container");
    world.journal.wait("start uid-p-c-1").await;

    let ended = World::with(|_| {}, &["--anonymous-auth"]).await;
    ended.launch("q", one("Never"));
    ended.journal.wait("t-q TASK_RUNNING").await;
    ended.runtime.write_log("uid-q-c-0", LOG);
    ended.runtime.exit("uid-q-c-0", 0);
    ended.journal.wait("t-q TASK_FINISHED").await;
    assert_eq!(get(&ended, "/containerLogs/n/q/c").await, (200, "hello\nagain\n".into()));
}

#[tokio::test]
async fn pods_health_and_refusals() {
    let world = world().await;
    let (status, text) = get(&world, "/pods").await;
    assert_eq!(status, 200);
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&"PodList".into(), &"p".into()));
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    assert!(get(&world, "/metrics").await.1.contains("kubelet_running_pods 1"));
    assert_eq!(get(&world, "/exec/n/p/c?command=sh").await.0, 501);
}

#[tokio::test]
async fn strangers_see_health_only() {
    let world = World::new().await;
    assert_eq!(get(&world, "/healthz").await, (200, "ok".into()));
    for path in ["/pods", "/metrics", "/containerLogs/n/p/c", "/exec/n/p/c"] {
        assert_eq!(get(&world, path).await.0, 401, "{path}");
    }
}
