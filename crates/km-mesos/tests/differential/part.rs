//! One part of the embedded cluster as a process of its own, so that it can be killed and stopped as Apache Mesos is:
//! `mesos-part master|agent FLAGS`. It says its address in the first line of its output.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::Parser;
use km_mesos::{agent, master};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Line<F: clap::Args> {
    #[command(flatten)]
    flags: F,
}

#[tokio::main]
async fn main() -> Result<()> {
    km_observe::init_logging("info");
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        bail!("this process has a TLS provider already");
    }
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        bail!("the first word must be `master` or `agent`");
    }
    let stop = CancellationToken::new();
    let started = match words[0].as_str() {
        "master" => master::start(flags(&mut words)?, stop.clone()).await?,
        "agent" => agent::start(flags(&mut words)?, stop.clone()).await?,
        other => bail!("no part is called {other}"),
    };
    println!("{}", started.address);
    std::io::stdout().flush().context("cannot say the address")?;
    // As an agent of Apache Mesos it leaves the cluster on this signal.
    let mut leaves = signal(SignalKind::user_defined1()).context("cannot listen for SIGUSR1")?;
    tokio::spawn(async move {
        leaves.recv().await;
        stop.cancel();
    });
    started.join().await
}

fn flags<F: clap::Args>(words: &mut [String]) -> Result<F> {
    Ok(Line::<F>::try_parse_from(words.iter())?.flags)
}
