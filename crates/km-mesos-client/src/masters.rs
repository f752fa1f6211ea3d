//! The masters to try, and the watch over who leads. Clones share one watch.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

use crate::{
    Authority, ClientError, MasterAddress, Tls,
    zookeeper::{Detection, Ensemble, Sighting},
};

/// How long an attempt waits for ZooKeeper to name a leader; the next attempt waits again.
const ELECTION_PATIENCE: Duration = Duration::from_secs(5);

/// Where masters are, how they are spoken to, and which of them leads.
#[derive(Clone, Debug)]
pub struct Masters {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    address: MasterAddress,
    tls: Option<Tls>,
    /// Started by the first use, and anew when the file names another ZooKeeper.
    detection: Mutex<Option<Detection>>,
}

impl Masters {
    /// With `tls`, all masters are spoken to by https, whether or not the address says so.
    pub fn new(address: MasterAddress, tls: Option<Tls>) -> Self {
        Self { inner: Arc::new(Inner { address, tls, detection: Mutex::default() }) }
    }

    /// The masters to try in turn; by ZooKeeper the leader alone. At least one.
    pub(crate) async fn candidates(&self) -> Result<Vec<Authority>, ClientError> {
        let read;
        let address = match &self.inner.address {
            MasterAddress::File(path) => {
                read = from_file(path).await?;
                &read
            }
            address => address,
        };
        match address {
            MasterAddress::List(masters) => Ok(masters.clone()),
            MasterAddress::Https(masters) if self.inner.tls.is_some() => Ok(masters.clone()),
            MasterAddress::Https(_) => {
                Err(ClientError::Setup(format!("{address} needs the certificate of an authority to trust")))
            }
            MasterAddress::ZooKeeper(ensemble) => self.leader(ensemble).await.map(|leader| vec![leader]),
            // `from_file` answers none of these.
            MasterAddress::File(path) => Err(nested(path)),
        }
    }

    /// Ends once another master leads than the one that was found at `via`. Without ZooKeeper nobody tells, and it
    /// never ends: then only the connection's end shows it.
    pub(crate) async fn leads_no_more(&self, via: &Authority) {
        let sightings = self.lock().as_ref().map(Detection::sightings);
        if let Some(mut sightings) = sightings {
            let other = |seen: &Sighting| seen.leader.as_ref().is_some_and(|leader| leader != via);
            if sightings.wait_for(other).await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.inner.tls.as_ref()
    }

    async fn leader(&self, ensemble: &Ensemble) -> Result<Authority, ClientError> {
        let mut sightings = self.sightings(ensemble);
        // An error would be the watch's own end, and shows as a leader that doesn't come.
        drop(timeout(ELECTION_PATIENCE, sightings.wait_for(|seen| seen.leader.is_some())).await);
        let seen = sightings.borrow();
        let reason = seen.trouble.clone().unwrap_or_default();
        seen.leader.clone().ok_or(ClientError::NoLeader(reason))
    }

    fn sightings(&self, ensemble: &Ensemble) -> watch::Receiver<Sighting> {
        let mut detection = self.lock();
        let known = detection.take().filter(|known| known.ensemble == *ensemble);
        let by_name = self.inner.tls.is_some();
        detection.insert(known.unwrap_or_else(|| Detection::start(ensemble, by_name))).sightings()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Detection>> {
        // Nothing panics while it holds the lock, and the value is whole at any time.
        self.inner.detection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<MasterAddress> for Masters {
    /// Spoken to by http.
    fn from(address: MasterAddress) -> Self {
        Self::new(address, None)
    }
}

async fn from_file(path: &Path) -> Result<MasterAddress, ClientError> {
    let read = tokio::fs::read_to_string(path).await;
    let text = read.map_err(|error| unreadable(path, error.to_string()))?;
    // What is wrong today may be mended tomorrow: the file is read again.
    match text.parse().map_err(|error: crate::address::AddressError| unreadable(path, error.to_string()))? {
        MasterAddress::File(_) => Err(nested(path)),
        address => Ok(address),
    }
}

fn nested(path: &Path) -> ClientError {
    unreadable(path, "it names another file, expected 'host:port' or 'zk://host:port/path'".to_owned())
}

fn unreadable(path: &Path, reason: String) -> ClientError {
    ClientError::AddressFile { path: path.display().to_string(), reason }
}
