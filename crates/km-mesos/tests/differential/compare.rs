//! Plays scripts to both clusters and finds where the recordings part.

use std::{fmt::Write, future::Future, pin::Pin};

use anyhow::Result;

use crate::{
    cluster::{Cluster, Setup},
    player::Player,
};

/// What a script returns.
pub type Played<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A script: a name that says which behaviour it is about, and what is played.
pub struct Script {
    /// Named like the function.
    pub name: &'static str,
    /// Plays it to one cluster.
    pub play: for<'a> fn(&'a mut Player) -> Played<'a>,
}

/// A list of the named functions as scripts.
macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        &[$($crate::compare::Script { name: stringify!($name), play: |player| Box::pin($name(player)) }),*]
    };
}
pub(crate) use scripts;

/// One pair of clusters at a time: several on few cores would delay each other's timers.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Starts both clusters, plays all, and panics with every difference found.
pub async fn compare(setup: &Setup, scripts: &[&[Script]]) {
    let _turn = ONE_AT_A_TIME.lock().await;
    // A second installation in this process is refused, and does no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (real, embedded) = clusters(setup).await.unwrap_or_else(|error| panic!("{error:#}"));
    let only = std::env::var("KM_TEST_SCRIPT").ok();
    let mut report = String::new();
    for script in scripts.iter().copied().flatten() {
        if only.as_ref().is_some_and(|only| !script.name.contains(only.as_str())) {
            continue;
        }
        let (expected, got) = tokio::join!(record(&real, script), record(&embedded, script));
        if let Some(difference) = difference(&expected, &got) {
            let part = format!("\n== {} ==\n{difference}", script.name);
            println!("{part}");
            let _ = write!(report, "{part}");
        }
    }
    for ended in [real.end().await, embedded.end().await] {
        ended.unwrap_or_else(|error| panic!("{error:#}"));
    }
    assert!(report.is_empty(), "'-' is Apache Mesos, '+' the embedded one{report}");
}

async fn clusters(setup: &Setup) -> Result<(Cluster, Cluster)> {
    let real = Cluster::real(setup)?;
    match Cluster::embedded(setup).await {
        Ok(embedded) => Ok((real, embedded)),
        Err(error) => {
            real.end().await?;
            Err(error)
        }
    }
}

/// The script's recording; a script that got stuck ends with the reason. That must not happen on either cluster.
async fn record(cluster: &Cluster, script: &Script) -> (Vec<String>, bool) {
    let mut player = match Player::new(cluster).await {
        Ok(player) => player,
        Err(error) => {
            println!("{}: not started; the master's log ends with:\n{}", script.name, cluster.parts.log("master"));
            return (vec![format!("not started: {error:#}")], false);
        }
    };
    let played = (script.play)(&mut player).await;
    let tidied = player.tidy().await;
    let fine = played.is_ok() && tidied.is_ok();
    if !fine {
        println!("{}: the master's log ends with:\n{}", script.name, player.parts.log("master"));
    }
    let mut lines = player.into_lines();
    for (what, result) in [("stuck", played), ("not tidied", tidied)] {
        if let Err(error) = result {
            lines.push(format!("{what}: {error:#}"));
        }
    }
    (lines, fine)
}

fn difference(
    (expected, expected_fine): &(Vec<String>, bool),
    (got, got_fine): &(Vec<String>, bool),
) -> Option<String> {
    if expected == got && *expected_fine && *got_fine {
        return None;
    }
    let mut text = String::new();
    let longest = expected.len().max(got.len());
    for index in 0..longest {
        let (left, right) = (expected.get(index), got.get(index));
        if left == right {
            let _ = writeln!(text, "  {}", left.map_or("", |line| line.get(..160).unwrap_or(line)));
            continue;
        }
        for (mark, line) in [('-', left), ('+', right)] {
            if let Some(line) = line {
                let _ = writeln!(text, "{mark} {line}");
            }
        }
    }
    Some(text)
}
