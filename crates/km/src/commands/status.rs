//! `km status`: what runs on a data directory.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use super::{DataDir, Output, up};
use crate::{
    cluster::{Layout, Lock, State},
    exit::{Exit, Failed},
};

#[derive(Args, Debug)]
pub struct Flags {
    #[command(flatten)]
    data: DataDir,
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    let layout = flags.data.layout();
    let holder = if layout.root.exists() { Lock::holder(&layout.lock()).map_err(anyhow::Error::from)? } else { None };
    let Some(holder) = holder else {
        let nothing = anyhow!("no cluster runs on {}", layout.root.display());
        return Err(Failed::new(Exit::NotRunning, nothing).way_out("`km up` starts one"));
    };
    let state = State::load(&layout.state())?.unwrap_or_default();
    let document = describe(&layout, holder.pid, &state).await.map_err(|error| {
        Failed::new(Exit::Unreachable, error).way_out(format!("process {} may be starting or stopping", holder.pid))
    })?;
    if !flags.output.print(&document)? {
        print_text(&document);
    }
    Ok(())
}

/// A client with the administrator's rights on a local cluster.
pub async fn client(layout: &Layout) -> Result<Client> {
    client_of(&layout.kubeconfig("admin")).await
}

/// A client with the rights of a kubeconfig file.
pub async fn client_of(path: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn describe(layout: &Layout, pid: i32, state: &State) -> Result<Value> {
    let client = client(layout).await?;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.context("cannot list nodes")?;
    let pods = Api::<Pod>::all(client).list(&ListParams::default()).await.context("cannot list pods")?;
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    let count = |wanted: &str| pods.iter().filter(|pod| phase(pod) == wanted).count();
    Ok(json!({
        "dataDir": layout.root,
        "pid": pid,
        "apiServer": format!("https://127.0.0.1:{}", state.api_port),
        "mesosMaster": format!("http://127.0.0.1:{}", state.mesos_port),
        "nodes": nodes.iter().map(|node| json!({
            "name": node.name_any(),
            "ready": up::is_ready(node),
        })).collect::<Vec<_>>(),
        "pods": { "running": count("Running"), "pending": count("Pending"), "total": pods.items.len() },
    }))
}

fn print_text(document: &Value) {
    let text = |pointer: &str| match document.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    println!("data directory  {}", text("/dataDir"));
    println!("process         {}", text("/pid"));
    println!("API server      {}", text("/apiServer"));
    println!("Mesos master    {}", text("/mesosMaster"));
    for node in document["nodes"].as_array().into_iter().flatten() {
        let ready = if node["ready"] == true { "Ready" } else { "NotReady" };
        println!("node            {} {ready}", node["name"].as_str().unwrap_or_default());
    }
    println!(
        "pods            {} running, {} pending, {} in all",
        text("/pods/running"),
        text("/pods/pending"),
        text("/pods/total")
    );
}
