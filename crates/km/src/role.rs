//! Running one role in the foreground until a signal or its end.

use std::future::Future;

use clap::{Args, Parser};
use km_observe::Started;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::{Exit, Failed};

/// Starts a role, says where it listens, and waits for its end.
pub async fn run<F>(start: impl FnOnce(CancellationToken) -> F) -> Result<(), Failed>
where
    F: Future<Output = anyhow::Result<Started>>,
{
    km_observe::init_logging("info");
    let started = start(stop_on_signal()).await?;
    tracing::info!(role = started.name, address = %started.address, version = km_observe::VERSION, "started");
    Ok(started.join().await?)
}

/// A token that the first SIGINT or SIGTERM cancels.
pub fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(mut interrupt), Ok(mut terminate)) => {
                tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
            }
            (Err(error), _) | (_, Err(error)) => tracing::error!(%error, "cannot listen for signals: stopping"),
        }
        token.cancel();
    });
    stop
}

/// Builds a role's flags from words, exactly as its command line would: `km up` starts nothing that a user could not.
pub fn flags<F: Args>(words: impl IntoIterator<Item = String>) -> Result<F, Failed> {
    #[derive(Parser)]
    struct Line<F: Args> {
        #[command(flatten)]
        flags: F,
    }
    let words = std::iter::once("km".to_owned()).chain(words);
    match Line::<F>::try_parse_from(words) {
        Ok(line) => Ok(line.flags),
        Err(error) => Err(Failed::new(Exit::Usage, anyhow::anyhow!("{error}"))),
    }
}
