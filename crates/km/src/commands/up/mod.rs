//! `km up`: a whole cluster on this machine, in the foreground until Ctrl-C.

mod apply;
mod detach;
mod local;
mod ports;
mod report;
mod wait;
mod why;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{DataDir, down};
use crate::{
    cluster::{Layout, Lock, LockError, kubeconfig},
    exit::{Exit, Failed},
    progress::Progress,
    role,
};
use local::Local;
pub use local::is_ready;

#[derive(Args, Clone, Debug)]
pub struct Flags {
    #[command(flatten)]
    data: DataDir,
    /// Apply these manifests once the cluster is up, and wait for what they make.
    #[arg(long, value_name = "FILE")]
    apply: Vec<PathBuf>,
    /// How many Mesos agents, each a Kubernetes node.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    agents: u16,
    /// Resources of each agent in Mesos syntax [default: all CPUs of this machine, and an agent's share of its memory
    /// and disk; ports are always added].
    #[arg(long, value_name = "RESOURCES")]
    agent_resources: Option<String>,
    /// Write the kubeconfig to this file instead of merging the context `km` into $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Which container runtime the nodes use.
    #[arg(long, value_name = "RUNTIME", default_value = "auto", value_parser = ["auto", "oci", "cri"])]
    runtime: String,
    /// How services are made to answer: by nftables, or by a proxy in user space where there are none.
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = ["auto", "nftables", "userspace"])]
    proxy_mode: String,
    /// Leave the cluster running in the background; `km down` stops it.
    #[arg(long)]
    detach: bool,
    /// How long to wait for the cluster, and then for what was applied, e.g. `90s` or `5m`.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    wait: Duration,
    #[command(flatten)]
    ports: ports::Flags,
    /// Set by `--detach` for the process in the background.
    #[arg(long, hide = true)]
    in_background: bool,
}

pub async fn run(flags: Flags) -> Result<(), Failed> {
    if flags.runtime == "cri" {
        let missing = anyhow!("--runtime=cri is not there yet");
        return Err(Failed::new(Exit::Usage, missing).way_out("--runtime=oci is the embedded runtime"));
    }
    let progress = Progress::new();
    let layout = flags.data.layout();
    check_machine(&progress).await?;
    for manifest in &flags.apply {
        apply::read(manifest).map_err(|error| Failed::new(Exit::BadConfiguration, error))?;
    }
    if flags.detach {
        return detach::run(&flags, &layout, &progress).await;
    }
    km_observe::init_logging("warn");
    let _lock = take(&layout)?;
    let interrupted = role::stop_on_signal();
    let result = tokio::select! {
        result = serve(&flags, &layout, &progress, &interrupted) => result,
        () = async { interrupted.cancelled().await; tokio::time::sleep(Duration::from_secs(90)).await } =>
            Err(anyhow!("the cluster did not stop within 90 s of the signal").into()),
    };
    // Whatever happened, nothing that was started may stay behind.
    let cleaned = down::purge(&layout).await;
    result.and(cleaned.map_err(Failed::from))
}

async fn serve(
    flags: &Flags,
    layout: &Layout,
    progress: &Progress,
    interrupted: &CancellationToken,
) -> Result<(), Failed> {
    let mut cluster = Local::new(flags, layout.clone());
    let outcome = tokio::select! {
        result = bring_up(&mut cluster, flags, progress) => result,
        () = interrupted.cancelled() => Ok(()),
    };
    let outcome = match outcome {
        // Who stops a cluster before anything runs does not want to hear that nothing does.
        Ok(()) => tokio::select! {
            biased;
            () = interrupted.cancelled() => Ok(()),
            failed = cluster.failure() => Err(failed),
        },
        Err(failed) => Err(failed),
    };
    let _absent = std::fs::remove_file(layout.ready());
    let stopped = progress.step("cluster stopped", cluster.stop(), |()| String::new()).await;
    outcome.and(stopped)
}

async fn bring_up(cluster: &mut Local, flags: &Flags, progress: &Progress) -> Result<(), Failed> {
    let deadline = tokio::time::Instant::now() + flags.wait;
    cluster.start(progress, deadline).await?;
    let context = match &flags.kubeconfig {
        Some(file) => {
            cluster.write_kubeconfig(file)?;
            file.display().to_string()
        }
        None => merge_default(cluster, progress)?,
    };
    progress.done("kubeconfig", &context, Duration::ZERO);
    let client = cluster.client().await?;
    let mut applied = Vec::new();
    for manifest in &flags.apply {
        let name = format!("applied {}", manifest.display());
        let objects = progress
            .step(&name, apply::apply(&client, manifest), |objects| match objects.len() {
                1 => "1 object".to_owned(),
                many => format!("{many} objects"),
            })
            .await?;
        applied.extend(objects);
    }
    if !applied.is_empty() {
        let deadline = tokio::time::Instant::now() + flags.wait;
        progress
            .step("everything runs", wait::until_ready(&client, &applied, deadline), |pods| format!("{pods} pods"))
            .await?;
    }
    std::fs::write(cluster.layout().ready(), b"").context("cannot write the ready file")?;
    report::print(&client, cluster, progress.elapsed(), flags.in_background).await
}

fn merge_default(cluster: &Local, progress: &Progress) -> Result<String, Failed> {
    let Some(file) = kubeconfig::default_path() else {
        progress.note("neither KUBECONFIG nor HOME is set: no kubeconfig is merged (`km kubeconfig` prints it)");
        return Ok(cluster.layout().kubeconfig("admin").display().to_string());
    };
    let ours = kubeconfig::read(&cluster.layout().kubeconfig("admin"))?.context("the cluster wrote no kubeconfig")?;
    kubeconfig::merge_into(&file, "km", &ours)?;
    Ok(format!("context km in {}", file.display()))
}

async fn check_machine(progress: &Progress) -> Result<(), Failed> {
    for check in km_runtime::preflight().await {
        let Err(problem) = check.result else { continue };
        if check.required {
            let error = anyhow!("this machine cannot run containers: {}: {problem}", check.name);
            return Err(Failed::new(Exit::MachineUnfit, error).way_out("`km check` tries everything out, one by one"));
        }
        progress.note(&format!("{}: {problem}", check.name));
    }
    Ok(())
}

fn take(layout: &Layout) -> Result<Lock, Failed> {
    std::fs::create_dir_all(&layout.root).with_context(|| format!("cannot create {}", layout.root.display()))?;
    Lock::take(&layout.lock()).map_err(|error| {
        let held = matches!(error, LockError::Held(_));
        let error = anyhow::Error::from(error).context(format!("cannot use {}", layout.root.display()));
        if held {
            Failed::new(Exit::InUse, error)
                .way_out("`km status` shows that cluster, `km down` stops it; --data-dir names another")
        } else {
            error.into()
        }
    })
}

/// A duration as Go and kubectl write it: `90s`, `1m30s`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90s, 5m or 1h30m");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let millis = match &rest[digits..unit_end] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        total += Duration::from_millis(count.checked_mul(millis).ok_or_else(wrong)?);
        rest = &rest[unit_end..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_kubectl_writes_them() {
        for (text, millis) in [("90s", 90_000), ("1m30s", 90_000), ("500ms", 500), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5x", "-1s", "99999999999999999999s", "1 s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }
}
