//! Events are kept for a while only.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{server::Server, time, verbs::write};

const INTERVAL: Duration = Duration::from_secs(60);

/// Removes events older than `ttl` until the server stops.
pub async fn run(server: Arc<Server>, ttl: Duration) {
    loop {
        tokio::select! {
            () = server.stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
        let Ok(oldest) = Timestamp::now().checked_sub(ttl) else { continue };
        let Ok(events) = server.all("events") else { continue };
        for stored in events {
            if last_seen(&stored.value()).is_some_and(|seen| seen < oldest)
                && let Err(error) = write::remove(&server, &stored, false).await
            {
                tracing::debug!(%error, event = stored.key.name, "an expired event stays for now");
            }
        }
    }
}

/// When an event was last reported.
fn last_seen(event: &Value) -> Option<Timestamp> {
    ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
        .iter()
        .filter_map(|pointer| event.pointer(pointer).and_then(Value::as_str).and_then(time::parse))
        .max()
}
