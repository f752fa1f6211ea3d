//! Reads the configuration file again while the scheduler runs: on SIGHUP, or when asked on the HTTP port.

use std::sync::Arc;

use anyhow::Context;
use axum::{
    Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Mutex, watch},
};
use tokio_util::sync::CancellationToken;

use super::{metrics::Metrics, status::Status};
use crate::{Flags, FlagsError, core::Event, flags::CHANGEABLE};

/// The flags as the file completes them now.
#[derive(Clone)]
pub struct Settings {
    /// Without the file.
    given: Arc<Flags>,
    now: Arc<watch::Sender<Arc<Flags>>>,
    status: Arc<Status>,
    metrics: Metrics,
    /// One reads at a time.
    turn: Arc<Mutex<()>>,
}

impl Settings {
    pub fn new(given: Flags, resolved: Flags, status: Arc<Status>, metrics: Metrics) -> Self {
        let now = Arc::new(watch::Sender::new(Arc::new(resolved)));
        Self { given: Arc::new(given), now, status, metrics, turn: Arc::default() }
    }

    pub fn now(&self) -> Arc<Flags> {
        Arc::clone(&self.now.borrow())
    }

    /// Reads the file again and says in words what follows from it.
    ///
    /// # Errors
    /// Names the line. Then nothing is taken over.
    pub async fn reload(&self) -> Result<String, FlagsError> {
        let _turn = self.turn.lock().await;
        let outcome = self.take_over().await;
        let result = match &outcome {
            Ok(text) if text.is_empty() => "unchanged",
            Ok(_) => "changed",
            Err(_) => "refused",
        };
        self.metrics.reloaded(result);
        match &outcome {
            Ok(text) => tracing::info!(result, "the configuration file was read again: {}", text.trim_end()),
            Err(error) => tracing::error!(%error, "the configuration file is not taken over: all is as before"),
        }
        outcome
    }

    async fn take_over(&self) -> Result<String, FlagsError> {
        if self.given.scheduler_config.is_none() {
            return Err(FlagsError { flag: "scheduler-config", reason: "names no file to read again".to_owned() });
        }
        let (now, new) = (self.now(), Flags::clone(&self.given).read()?);
        let framework = new.framework()?;
        let changes = now.tuning.changes(&new.tuning);
        let line = |name: &str| match () {
            () if new.given.contains(name) => format!("{name}: no effect, as --{name} stands on the command line\n"),
            () if CHANGEABLE.contains(&name) => format!("{name}: taken over\n"),
            () => format!("{name}: taken over when this scheduler starts\n"),
        };
        let text = changes.into_iter().map(line).collect();
        self.now.send_replace(Arc::new(new));
        // One that doesn't lead says it when it does.
        let _leads = self.status.tell(Event::Configured(Arc::new(framework))).await;
        Ok(text)
    }

    /// The way to ask for it by HTTP.
    pub fn router(&self) -> Router {
        let settings = self.clone();
        Router::new().route("/debug/actions/reload", get(async move || answer(settings.reload().await)))
    }

    /// Reads the file again on each SIGHUP, until `stop`. Without a file the signal stays what it is to the process.
    pub fn heed_hangups(&self, stop: CancellationToken) -> anyhow::Result<()> {
        if self.given.scheduler_config.is_none() {
            return Ok(());
        }
        let mut signals = signal(SignalKind::hangup()).context("can't listen for SIGHUP")?;
        let settings = self.clone();
        tokio::spawn(async move {
            while let Some(Some(())) = stop.run_until_cancelled(signals.recv()).await {
                // The outcome is in the log.
                let _told = settings.reload().await;
            }
        });
        Ok(())
    }
}

fn answer(outcome: Result<String, FlagsError>) -> Response {
    match outcome {
        Ok(text) if text.is_empty() => "nothing changed\n".into_response(),
        Ok(text) => text.into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}
