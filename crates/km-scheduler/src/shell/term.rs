//! One term of office: everything that only the leader does, from reading the identity to the last call.

use std::{net::SocketAddr, sync::Arc, time::SystemTime};

use km_mesos_client::{Credentials, Masters};
use km_mesos_proto::v1;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    api, driver,
    identity::Identity,
    master::{self, TakenOver},
    metrics::Metrics,
    profile::Profile,
    reload::Settings,
    service,
    status::Status,
    watch::Listener,
};
use crate::core::{Config, Core};

/// What a term needs. It outlives terms.
#[derive(Clone)]
pub struct Office {
    pub settings: Settings,
    pub client: Client,
    pub masters: Masters,
    pub credentials: Option<Credentials>,
    pub executor: v1::ExecutorInfo,
    pub status: Arc<Status>,
    pub metrics: Metrics,
    pub profile: Profile,
    /// Where the HTTP port is bound.
    pub served: SocketAddr,
    /// To whom the watches tell what they see.
    pub audience: watch::Sender<Option<Listener>>,
}

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Stopped,
    /// Another scheduler subscribed with the framework's id.
    TakenOver,
}

impl Office {
    /// Acts as the leader until `stop`. Tasks go on; calls and writes that are under way are given up, and what Mesos
    /// and the API server made of them shows itself to the next term.
    pub async fn serve(&self, stop: &CancellationToken) -> anyhow::Result<End> {
        let flags = self.settings.now();
        let identity = tokio::select! {
            identity = Identity::open(self.client.clone(), &flags.framework_name, &self.executor) => Arc::new(identity),
            () = stop.cancelled() => return Ok(End::Stopped),
        };
        // A former term's late answers must not reach this one: each has its own channel and token.
        let stop = stop.child_token();
        let (events, inbox) = mpsc::channel(flags.tuning.updates_backlog);
        let unix_start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let former_executors = identity.executors().to_vec();
        let config = Config { unix_start, former_executors, ..flags.config(self.executor.clone()) };
        let core = Core::new(config, identity.generation());
        let link = master::Link::new(self.masters.clone(), self.credentials.as_ref(), Arc::clone(core.framework()))?;
        let api = api::Api::new(self.client.clone(), Arc::clone(&identity), events.clone(), stop.clone());
        let (status, metrics, profile) = (Arc::clone(&self.status), self.metrics.clone(), self.profile.clone());
        let driver = driver::Driver { core, status, metrics, profile, api, link: link.clone(), events: events.clone() };
        let (questions, asked) = mpsc::channel(16);
        self.status.open(events.clone(), questions);
        self.audience.send_replace(Some(Listener::new(Arc::clone(&identity), events.clone())));

        let subscribing = master::subscribe_for_ever(link, self.credentials.clone(), identity, events, &stop);
        let publishing = service::publish(self.client.clone(), &self.status, self.served, flags.service_address);
        let ended = tokio::select! {
            result = subscribing => result,
            () = publishing => Ok(()),
            () = driver.run(inbox, asked, &stop) => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        stop.cancel();
        self.audience.send_replace(None);
        self.status.close();
        match ended {
            Ok(()) => Ok(End::Stopped),
            Err(error) if error.is::<TakenOver>() => {
                tracing::error!("{TakenOver}");
                Ok(End::TakenOver)
            }
            Err(error) => Err(error),
        }
    }
}
