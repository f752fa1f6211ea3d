//! The Lease of the election in the API server.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease as KubeLease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use super::identity::ensure_namespace;
use crate::election::{Draft, Event, Record, Written};

/// Where the Lease is, and how long an answer may take.
#[derive(Clone)]
pub struct Lease {
    client: Client,
    namespace: String,
    name: String,
    patience: Duration,
}

impl Lease {
    pub fn new(client: Client, namespace: &str, name: &str, patience: Duration) -> Self {
        Self { client, namespace: namespace.to_owned(), name: name.to_owned(), patience }
    }

    fn api(&self) -> Api<KubeLease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Reads the Lease; the election's answer to [`crate::election::Action::Read`].
    pub async fn read(&self) -> Event {
        match tokio::time::timeout(self.patience, self.api().get_opt(&self.name)).await {
            Ok(Ok(found)) => Event::Read(Ok(found.map(record))),
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, %error, "the lease can't be read");
                Event::Read(Err(()))
            }
            Err(_elapsed) => {
                tracing::warn!(lease = self.name, "the API server doesn't answer in time");
                Event::Read(Err(()))
            }
        }
    }

    /// Writes the Lease; the election's answer to [`crate::election::Action::Write`].
    pub async fn write(&self, draft: Draft) -> Event {
        let written = match tokio::time::timeout(self.patience, self.try_write(draft)).await {
            Ok(Ok(lease)) => Written::Done(record(lease)),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Written::Conflict,
            Ok(Err(error)) => {
                tracing::warn!(lease = self.name, %error, "the lease can't be written");
                Written::Failed
            }
            Err(_elapsed) => {
                tracing::warn!(lease = self.name, "the API server doesn't answer in time");
                Written::Failed
            }
        };
        Event::Written(written)
    }

    async fn try_write(&self, draft: Draft) -> Result<KubeLease, kube::Error> {
        let now = MicroTime(Timestamp::now());
        let seconds = i32::try_from(draft.duration.as_secs()).unwrap_or(i32::MAX);
        // An empty name is no valid holder.
        let holder = Some(draft.holder).filter(|holder| !holder.is_empty());
        let Some(base) = draft.base else {
            let mut lease = KubeLease::default();
            lease.metadata.name = Some(self.name.clone());
            lease.spec = Some(LeaseSpec {
                holder_identity: holder,
                lease_duration_seconds: Some(seconds),
                lease_transitions: Some(draft.transitions),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                ..LeaseSpec::default()
            });
            ensure_namespace(&self.client, &self.namespace).await?;
            return self.api().create(&PostParams::default(), &lease).await;
        };
        let mut spec = json!({
            "holderIdentity": holder, "leaseDurationSeconds": seconds,
            "leaseTransitions": draft.transitions, "renewTime": now,
        });
        if draft.acquired {
            spec["acquireTime"] = json!(now);
        }
        // The version makes it a comparison and a write in one.
        let patch = json!({ "metadata": { "resourceVersion": base }, "spec": spec });
        self.api().patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    /// Yields whenever the Lease is seen to be nobody's. It only saves waiting: the election asks by itself, too.
    pub fn vacancies(&self) -> impl Stream<Item = ()> + Send + use<> {
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let changes = watcher(self.api(), config).default_backoff();
        changes.filter_map(|change| async {
            let vacant = match change {
                Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease)) => record(lease).holder.is_empty(),
                Ok(watcher::Event::Delete(_)) => true,
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => false,
            };
            vacant.then_some(())
        })
    }
}

/// The next vacancy; never, when the stream is over.
pub async fn next_vacancy(vacancies: &mut (impl Stream<Item = ()> + Unpin)) {
    if pin!(vacancies).next().await.is_none() {
        std::future::pending::<()>().await;
    }
}

fn record(lease: KubeLease) -> Record {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds.unwrap_or(0)),
        transitions: spec.lease_transitions.unwrap_or(0),
        version: lease.metadata.resource_version.unwrap_or_default(),
    }
}
