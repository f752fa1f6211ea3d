//! The scheduler API: one subscription with its stream of events, and calls that belong to it.

use std::{sync::Arc, time::Duration};

use km_mesos_proto::v1::{
    self,
    scheduler::{Call, Event, call, event},
};
use reqwest::header::HeaderValue;

use crate::{
    Authority, ClientError, Encoding, MasterAddress, Masters,
    http::{Credentials, Http, Patience, Post, STREAM_ID, persist},
    repeat, stream,
};

const PATH: &str = "/api/v1/scheduler";
/// What a master sends when it doesn't say.
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(15);

/// The events of a subscription. The first is SUBSCRIBED.
pub type EventStream = stream::EventStream<Event>;

/// How to reach the master. [`Options::new`] sets what Apache Mesos recommends.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to look for it.
    pub masters: Masters,
    /// How to write messages.
    pub encoding: Encoding,
    /// Who we are, if the master asks.
    pub credentials: Option<Credentials>,
    /// How long to try to subscribe, waiting for a leader included.
    pub subscribe_deadline: Duration,
    /// The longest wait between two attempts to subscribe.
    pub subscribe_backoff_max: Duration,
    /// How long to try each call.
    pub call_deadline: Duration,
    /// Longest event accepted, in bytes.
    pub max_event: usize,
}

impl Options {
    /// The defaults, by http.
    pub fn new(master: MasterAddress) -> Self {
        Self::with_masters(master.into())
    }

    /// The defaults.
    pub fn with_masters(masters: Masters) -> Self {
        Self {
            masters,
            encoding: Encoding::default(),
            credentials: None,
            subscribe_deadline: Duration::from_secs(60),
            subscribe_backoff_max: Duration::from_secs(15),
            call_deadline: Duration::from_secs(15),
            max_event: 128 << 20,
        }
    }
}

/// A client that can subscribe, any number of times.
#[derive(Clone, Debug)]
pub struct SchedulerClient {
    options: Options,
    http: Http,
}

/// A client; nothing is sent yet.
///
/// # Errors
/// The credentials can't be sent.
pub fn connect(options: Options) -> Result<SchedulerClient, ClientError> {
    let http = Http::new(options.credentials.as_ref().map(Credentials::authorization), options.masters.tls())?;
    Ok(SchedulerClient { options, http })
}

impl SchedulerClient {
    /// Subscribes, as a new framework unless `framework` has an id. Waits for a leading master within the deadline.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the master says ERROR instead of SUBSCRIBED.
    pub async fn subscribe(
        &self,
        framework: v1::FrameworkInfo,
        suppressed_roles: Vec<String>,
    ) -> Result<(Session, EventStream), ClientError> {
        self.subscribe_as(call::Subscribe { framework_info: framework, suppressed_roles, ..Default::default() }).await
    }

    /// The same with all that SUBSCRIBE may say.
    ///
    /// # Errors
    /// See [`SchedulerClient::subscribe`].
    pub async fn subscribe_as(&self, subscribe: call::Subscribe) -> Result<(Session, EventStream), ClientError> {
        let call = Call {
            framework_id: subscribe.framework_info.id.clone(),
            r#type: Some(call::Type::Subscribe.into()),
            subscribe: Some(subscribe),
            ..Default::default()
        };
        let post = self.post(&call, None);
        let patience = Patience {
            deadline: self.options.subscribe_deadline,
            backoff_base: Duration::from_millis(250),
            backoff_cap: self.options.subscribe_backoff_max,
        };
        persist(patience, true, |number| self.subscribe_once(&post, number)).await
    }

    async fn subscribe_once(&self, post: &Post, number: usize) -> Result<(Session, EventStream), ClientError> {
        let masters = self.options.masters.candidates().await?;
        // There is at least one: an empty text is no address.
        let via = &masters[number % masters.len()];
        let (master, response) = self.http.post(via, post).await?;
        let stream_id = response.headers().get(STREAM_ID).cloned();
        let mut reader = stream::Reader::new(master.clone(), response, self.options.encoding, self.options.max_event)?;
        let first: Event = reader.next().await?;
        let subscribed = match (&first.subscribed, &first.error) {
            (Some(subscribed), _) if first.r#type() == event::Type::Subscribed => subscribed,
            (_, Some(error)) => return Err(ClientError::Refused(error.message.clone())),
            _ => {
                let kind = first.r#type().as_str_name();
                return Err(ClientError::Decode(format!("the first event is {kind}, expected SUBSCRIBED")));
            }
        };
        reader.expect_heartbeats(heartbeat(subscribed));
        let framework_id = subscribed.framework_id.clone();
        let master_version = subscribed.master_info.as_ref().and_then(|info| info.version.clone());
        let (client, via) = (self.clone(), via.clone());
        let inner = Inner { client, via, master, master_version, stream_id, framework_id };
        let session = Session { inner: Arc::new(inner) };
        Ok((session, reader.into_stream(Some(first))))
    }

    fn post(&self, call: &Call, stream_id: Option<HeaderValue>) -> Post {
        let encoding = self.options.encoding;
        Post { path: PATH, encoding, body: encoding.encode(call).into(), stream_id }
    }
}

/// One subscription: calls go to the master that granted it, and are refused there once it is superseded.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: SchedulerClient,
    /// The master that was asked, which may have sent us on.
    via: Authority,
    master: Authority,
    master_version: Option<String>,
    stream_id: Option<HeaderValue>,
    framework_id: v1::FrameworkId,
}

impl Session {
    /// The framework's id, given by the master if it is new.
    pub fn framework_id(&self) -> &v1::FrameworkId {
        &self.inner.framework_id
    }

    /// The leading master.
    pub fn master(&self) -> &Authority {
        &self.inner.master
    }

    /// The leading master's version, such as `1.11.0`, if it says.
    pub fn master_version(&self) -> Option<&str> {
        self.inner.master_version.as_deref()
    }

    /// Ends once ZooKeeper names another leading master: then this subscription is worth nothing, whether or not the
    /// old one has noticed. Never ends when masters aren't found by ZooKeeper.
    pub async fn superseded(&self) {
        self.inner.client.options.masters.leads_no_more(&self.inner.via).await;
    }

    /// `Mesos-Stream-Id`, by which the master tells subscriptions apart.
    pub fn stream_id(&self) -> Option<&str> {
        self.inner.stream_id.as_ref()?.to_str().ok()
    }

    /// Sends a call; the framework's id is filled in. `Ok` means accepted, effects show as events.
    ///
    /// # Errors
    /// After 400 and 403 the subscription is void: subscribe again. See [`ClientError::may_have_had_effect`] for
    /// whether an ACCEPT that failed can have launched something.
    pub async fn call(&self, mut call: Call) -> Result<(), ClientError> {
        let Inner { client, master, stream_id, framework_id, .. } = &*self.inner;
        call.framework_id = Some(framework_id.clone());
        let post = client.post(&call, stream_id.clone());
        let patience = Patience {
            deadline: client.options.call_deadline,
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(5),
        };
        persist(patience, repeat::scheduler_call(call.r#type()), |_| async {
            // The answer has no body that matters, and its end isn't waited for: the call is accepted.
            client.http.post(master, &post).await.map(drop)
        })
        .await
    }
}

fn heartbeat(subscribed: &event::Subscribed) -> Duration {
    let seconds = subscribed.heartbeat_interval_seconds.filter(|seconds| *seconds > 0.0);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(DEFAULT_HEARTBEAT)
}
