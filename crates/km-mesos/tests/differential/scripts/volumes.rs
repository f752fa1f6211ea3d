//! Persistent volumes: made, used and destroyed by frameworks.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::operations::unreserve_all;
use crate::{
    compare::{Script, scripts},
    framework::{Framework, accept_at_once, launch, scalar, with},
    operation::{for_role, operation, refined, volume},
    player::{DEADLINE, POLL, Player},
};

/// Needs one agent.
pub const VOLUMES: &[Script] = scripts![
    bad_volumes_say_why,
    volumes_are_unique,
    what_is_no_volume_cannot_be_destroyed,
    volumes_are_directories,
    a_task_finds_its_volume_in_its_sandbox,
];

/// A framework with so much disk reserved.
async fn with_disk(p: &mut Player, information: Value, megabytes: f64) -> Result<Framework> {
    let mut framework = p.framework(information).await?;
    let disk = for_role(scalar("disk", megabytes), "a");
    p.operate_next(&mut framework, operation("RESERVE", &[disk])).await?;
    Ok(framework)
}

fn set(mut value: Value, pointer: &str, to: Value) -> Value {
    if let Some(place) = value.pointer_mut(pointer) {
        *place = to;
    }
    value
}

// M165, M166, M168
async fn bad_volumes_say_why(p: &mut Player) -> Result<()> {
    let mut framework = with_disk(p, refined(&["a"]), 64.0).await?;
    let good = || volume("a", "id1", 16.0);
    let plain = with(good(), "reservations", json!([]));
    let nameless = set(good(), "/disk", json!({ "volume": { "container_path": "path", "mode": "RW" } }));
    let cases = [
        plain,
        with(good(), "revocable", json!({})),
        with(for_role(scalar("disk", 16.0), "a"), "shared", json!({})),
        set(good(), "/disk/persistence/id", "id1/".into()),
        set(good(), "/disk", json!({ "persistence": { "id": "id1", "principal": "owner" } })),
        set(good(), "/disk/volume", json!({ "container_path": "path", "host_path": "/tmp", "mode": "RW" })),
        nameless,
        for_role(scalar("disk", 16.0), "a"),
        volume("a", "id1", 100.0),
        volume("b", "id1", 16.0),
    ];
    for case in cases {
        p.operate_next(&mut framework, operation("CREATE", &[case])).await?;
    }
    p.offer(&mut framework).await?;
    unreserve_all(p).await
}

// M167
async fn volumes_are_unique(p: &mut Player) -> Result<()> {
    let mut framework = with_disk(p, refined(&["a"]), 64.0).await?;
    let good = || volume("a", "id1", 16.0);
    let create = |volumes: &[Value]| operation("CREATE", volumes);
    p.operate_next(&mut framework, create(&[good(), good()])).await?;
    p.operate_next(&mut framework, create(&[set(good(), "/disk/volume/mode", "RO".into())])).await?;
    p.operate_next(&mut framework, create(&[set(good(), "/disk/persistence/principal", "stranger".into())])).await?;
    p.operate_next(&mut framework, create(&[set(good(), "/disk/persistence", json!({ "id": "id1" }))])).await?;
    p.operate_next(&mut framework, create(&[with(good(), "shared", json!({}))])).await?;
    p.operate_next(&mut framework, create(&[good()])).await?;
    p.operate_next(&mut framework, create(&[good()])).await?;
    p.operate_next(&mut framework, operation("DESTROY", &[good()])).await?;
    unreserve_all(p).await
}

// M169
async fn what_is_no_volume_cannot_be_destroyed(p: &mut Player) -> Result<()> {
    let sharing = ["MULTI_ROLE", "RESERVATION_REFINEMENT", "SHARED_RESOURCES"].map(|name| json!({ "type": name }));
    let information = with(refined(&["a"]), "capabilities", sharing.to_vec().into());
    let mut framework = with_disk(p, information, 64.0).await?;
    for case in [for_role(scalar("disk", 16.0), "a"), volume("a", "unknown", 16.0)] {
        p.operate_next(&mut framework, operation("DESTROY", &[case])).await?;
    }
    let shared = with(volume("a", "shared", 16.0), "shared", json!({}));
    p.operate_next(&mut framework, operation("CREATE", std::slice::from_ref(&shared))).await?;
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let task = p.task(&offer, "t", "t");
    let resources = json!([scalar("cpus", 0.5), scalar("mem", 64.0), shared]);
    p.call(&framework, "ACCEPT", accept_at_once(&offer, &[launch(&[with(task, "resources", resources)])])).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    p.operate_next(&mut framework, operation("DESTROY", std::slice::from_ref(&shared))).await?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    let unused = |shown: &Value| shown["slaves"][0]["used_resources"]["disk"].as_f64() == Some(0.0);
    p.until("/slaves", unused).await?;
    // In one offer, with all that is left by the executor: a copy of the volume in a second offer is taken back, and may
    // be offered again before it is destroyed. Apache's master ends on a failed check of its sorter when that is freed.
    let all = p.only_offer_of(&mut framework, 3.9).await?;
    p.operate(&mut framework, &all, operation("DESTROY", &[shared])).await?;
    unreserve_all(p).await
}

/// Where the agent keeps volumes.
async fn volumes_folder(p: &Player) -> Result<PathBuf> {
    let flags = p.agent_state("r0", "/flags").await?;
    let folder = flags["flags"]["work_dir"].as_str().context("the agent has a work_dir")?.to_owned();
    Ok(PathBuf::from(folder).join("volumes/roles"))
}

async fn until_there(path: PathBuf, there: bool) -> Result<()> {
    let wait = async {
        while path.exists() != there {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.with_context(|| format!("{} exists: not {there}", path.display()))
}

// M176
async fn volumes_are_directories(p: &mut Player) -> Result<()> {
    let mut framework = with_disk(p, refined(&["a"]), 64.0).await?;
    let both = [volume("a", "id1", 16.0), volume("a", "id2", 32.0)];
    p.operate_next(&mut framework, operation("CREATE", &both)).await?;
    let offer = p.offer(&mut framework).await?;
    let folder = volumes_folder(p).await?.join("a");
    until_there(folder.join("id1"), true).await?;
    until_there(folder.join("id2"), true).await?;
    p.operate(&mut framework, &offer, operation("DESTROY", &both)).await?;
    until_there(folder.join("id1"), false).await?;
    until_there(folder.join("id2"), false).await?;
    p.offer(&mut framework).await?;
    unreserve_all(p).await
}

// M177
async fn a_task_finds_its_volume_in_its_sandbox(p: &mut Player) -> Result<()> {
    let mut framework = with_disk(p, refined(&["a"]), 64.0).await?;
    let disk = volume("a", "id1", 16.0);
    let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
    let task = p.task(&offer, "t", "t");
    let resources = json!([scalar("cpus", 0.5), scalar("mem", 64.0), disk]);
    let operations = [operation("CREATE", std::slice::from_ref(&disk)), launch(&[with(task, "resources", resources)])];
    p.call(&framework, "ACCEPT", accept_at_once(&offer, &operations)).await?;
    let mut executor = p.executor(&framework, "t").await?;
    p.executor_event(&mut executor, "LAUNCH").await?;
    let sandbox = PathBuf::from(executor.environment.get("MESOS_SANDBOX").context("it has a sandbox")?);
    let link = sandbox.join("path-id1");
    until_there(link.clone(), true).await?;
    std::fs::write(link.join("file"), "content")?;
    p.passes_on(&mut executor, &mut framework, "t", "TASK_FINISHED").await?;
    executor.exit(0)?;
    p.expect(&mut framework, "FAILURE").await?;
    let kept = std::fs::read_to_string(volumes_folder(p).await?.join("a/id1/file"))?;
    ensure!(kept == "content", "the volume lost its data");
    let offer = loop {
        // What the task left was offered before what it gave back.
        let offer = p.offers_quietly(&mut framework, 1).await?.remove(0);
        if offer["resources"].as_array().is_some_and(|all| all.iter().any(|one| one["disk"].is_object())) {
            break offer;
        }
    };
    p.operate(&mut framework, &offer, operation("DESTROY", &[disk])).await?;
    unreserve_all(p).await
}
