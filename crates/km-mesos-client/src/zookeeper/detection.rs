//! The watch over a ZooKeeper: asks, waits for changes, connects again. [`super::detector`] draws the conclusions.

use std::time::Duration;

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use zookeeper_client::{Client, Error, EventType, OneshotWatcher};

use super::{
    Ensemble,
    detector::{Detector, Next, Sighting},
};
use crate::backoff::Backoff;

/// As masters and agents of Mesos have it; a server may shorten it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A running watch. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Detection {
    pub ensemble: Ensemble,
    sightings: watch::Receiver<Sighting>,
    task: JoinHandle<()>,
}

impl Detection {
    /// Starts watching; needs a running Tokio.
    pub fn start(ensemble: &Ensemble, by_name: bool) -> Self {
        let trouble = Some(format!("{ensemble} has not answered yet"));
        let (sender, sightings) = watch::channel(Sighting { leader: None, trouble });
        let detector = Detector::new(&ensemble.path, by_name);
        let watch = Watch { ensemble: ensemble.clone(), detector, sightings: sender, backoff: backoff() };
        let task = tokio::spawn(watch.run());
        Self { ensemble: ensemble.clone(), sightings, task }
    }

    /// What is seen, now and later.
    pub fn sightings(&self) -> watch::Receiver<Sighting> {
        self.sightings.clone()
    }
}

impl Drop for Detection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The watch's state.
struct Watch {
    ensemble: Ensemble,
    detector: Detector,
    sightings: watch::Sender<Sighting>,
    backoff: Backoff,
}

impl Watch {
    async fn run(mut self) {
        loop {
            let error = match self.connect().await {
                Ok(client) => self.follow(&client).await,
                Err(error) => error,
            };
            let zookeeper = &self.ensemble;
            tracing::warn!(%error, %zookeeper, "ZooKeeper can't be asked for the leading master");
            self.sightings.send_replace(self.detector.lost(format!("{zookeeper} can't be asked: {error}")));
            sleep(self.backoff.next(rand::random())).await;
        }
    }

    async fn connect(&self) -> Result<Client, Error> {
        let mut connector = Client::connector().with_session_timeout(SESSION_TIMEOUT).with_fail_eagerly();
        if let Some(digest) = &self.ensemble.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        answer(connector.connect(&self.ensemble.hosts())).await
    }

    /// Tells all changes, until the session ends.
    async fn follow(&mut self, client: &Client) -> Error {
        loop {
            let watcher = match self.look(client).await {
                Ok(watcher) => watcher,
                Err(error) => return error,
            };
            let event = watcher.changed().await;
            if event.event_type == EventType::Session && event.session_state.is_terminated() {
                return Error::SessionExpired;
            }
        }
    }

    /// Looks until there is something to wait for, and says what was seen.
    async fn look(&mut self, client: &Client) -> Result<OneshotWatcher, Error> {
        let path = self.ensemble.path.clone();
        loop {
            let (nodes, watcher) = list(client, &path).await?;
            let mut next = self.detector.listed(nodes.as_deref());
            if let Next::Read(node) = &next {
                let content = match answer(client.get_data(&format!("{path}/{node}"))).await {
                    Ok((content, _)) => Some(content),
                    Err(Error::NoNode) => None,
                    Err(error) => return Err(error),
                };
                next = self.detector.read(node, content.as_deref());
            }
            if let Next::Wait(sighting) = next {
                self.backoff = backoff();
                self.say(sighting);
                return Ok(watcher);
            }
        }
    }

    fn say(&self, sighting: Sighting) {
        self.sightings.send_if_modified(|said| {
            if *said == sighting {
                return false;
            }
            match (&sighting.leader, &sighting.trouble) {
                (Some(leader), _) => tracing::info!(%leader, "ZooKeeper names the leading master"),
                (None, trouble) => tracing::warn!(trouble, "ZooKeeper names no leading master"),
            }
            *said = sighting;
            true
        });
    }
}

fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(250), LONGEST_PAUSE)
}

/// The nodes below the path, and what tells their next change; no nodes but a watch when the path isn't there yet.
async fn list(client: &Client, path: &str) -> Result<(Option<Vec<String>>, OneshotWatcher), Error> {
    loop {
        match answer(client.list_and_watch_children(path)).await {
            Ok((nodes, watcher)) => return Ok((Some(nodes), watcher)),
            Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
        // It may have come in between.
        if let (None, watcher) = answer(client.check_and_watch_stat(path)).await? {
            return Ok((None, watcher));
        }
    }
}

async fn answer<T>(question: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(ANSWER_TIMEOUT, question).await.unwrap_or(Err(Error::Timeout))
}
