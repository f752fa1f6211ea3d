//! The connection to the Mesos agent: subscribes, subscribes again, and sends updates until they are safe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use km_mesos_client::{ExecutorClient, Unacknowledged, environment::OnDisconnect, executor};
use km_mesos_proto::v1::{
    self,
    executor::{Call, Event, call, event},
};
use tokio::sync::{mpsc, watch};

use crate::retry::Delays;

/// Makes subscriptions. A trait, so that tests play the agent.
#[async_trait]
pub trait Link: Send + Sync {
    /// Subscribes, for as long as that may take.
    ///
    /// # Errors
    /// The text says why it makes no sense to go on.
    async fn subscribe(
        &self,
        tasks: Vec<v1::TaskInfo>,
        updates: Vec<call::Update>,
    ) -> Result<(Arc<dyn Calls>, EventStream), String>;

    /// Whether the agent wants its executors to outlive it.
    fn outlives_agent(&self) -> bool;
}

/// Calls in one subscription.
#[async_trait]
pub trait Calls: Send + Sync {
    async fn call(&self, call: Call) -> Result<(), String>;
}

pub type EventStream = BoxStream<'static, Result<Event, String>>;

#[async_trait]
impl Link for ExecutorClient {
    async fn subscribe(
        &self,
        tasks: Vec<v1::TaskInfo>,
        updates: Vec<call::Update>,
    ) -> Result<(Arc<dyn Calls>, EventStream), String> {
        let subscribed = ExecutorClient::subscribe(self, tasks, updates).await;
        let (session, events) = subscribed.map_err(|error| error.to_string())?;
        let events = events.map(|event| event.map_err(|error| error.to_string())).boxed();
        Ok((Arc::new(session), events))
    }

    fn outlives_agent(&self) -> bool {
        matches!(self.environment().on_disconnect(), OnDisconnect::ResubscribeFor(_))
    }
}

#[async_trait]
impl Calls for executor::Session {
    async fn call(&self, call: Call) -> Result<(), String> {
        executor::Session::call(self, call).await.map_err(|error| error.to_string())
    }
}

/// What the executor hears of its agent.
#[derive(Debug)]
pub enum News {
    Subscribed(Box<event::Subscribed>),
    Event(Box<Event>),
    /// There will be no connection any more.
    GaveUp(String),
}

type Session = Option<Arc<dyn Calls>>;

/// The sending side.
#[derive(Clone)]
pub struct Agent {
    pending: Arc<Mutex<Unacknowledged>>,
    queue: mpsc::UnboundedSender<v1::TaskStatus>,
}

impl Agent {
    /// Starts to connect. News comes until the receiver is dropped or [`News::GaveUp`].
    pub fn spawn(link: Arc<dyn Link>) -> (Self, mpsc::Receiver<News>) {
        let (news, receiver) = mpsc::channel(256);
        let (queue, outgoing) = mpsc::unbounded_channel();
        let (session, sessions) = watch::channel(None);
        let agent = Self { pending: Arc::default(), queue };
        tokio::spawn(connect(link, agent.clone(), session, news));
        tokio::spawn(deliver(outgoing, sessions, agent.pending.clone()));
        (agent, receiver)
    }

    fn pending(&self) -> MutexGuard<'_, Unacknowledged> {
        // A panic while it was held left it whole: every change is one call.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn launched(&self, task: v1::TaskInfo) {
        self.pending().launched(task);
    }

    pub fn acknowledged(&self, task: &v1::TaskId, uuid: &[u8]) {
        self.pending().acknowledged(task, uuid);
    }

    /// Whether the agent has stored everything that was sent.
    pub fn is_idle(&self) -> bool {
        self.pending().updates().is_empty()
    }

    /// Sends a status, as often as it takes; statuses keep their order.
    pub fn send(&self, mut status: v1::TaskStatus) {
        let now = Timestamp::now();
        status.uuid = Some(uuid::Uuid::new_v4().as_bytes().to_vec());
        status.timestamp = Some(now.as_duration().as_secs_f64());
        tracing::info!(
            task = status.task_id.value,
            state = status.state().as_str_name(),
            message = status.message(),
            "status update"
        );
        self.pending().sending(status.clone());
        if self.queue.send(status).is_err() {
            tracing::error!("the sender of updates has ended");
        }
    }
}

async fn connect(link: Arc<dyn Link>, agent: Agent, session: watch::Sender<Session>, news: mpsc::Sender<News>) {
    loop {
        let (tasks, updates) = {
            let pending = agent.pending();
            (pending.tasks(), pending.updates())
        };
        let subscribed = tokio::select! {
            subscribed = link.subscribe(tasks, updates) => subscribed,
            () = news.closed() => return,
        };
        let (over, reason) = match subscribed {
            Err(reason) => (true, reason),
            Ok((calls, events)) => {
                session.send_replace(Some(calls));
                let end = listen(events, &news).await;
                session.send_replace(None);
                end
            }
        };
        if news.is_closed() {
            return;
        }
        tracing::warn!(%reason, "no connection to the agent");
        if over || !link.outlives_agent() {
            if news.send(News::GaveUp(reason)).await.is_err() {
                tracing::debug!("nobody hears that the agent is away");
            }
            return;
        }
        // An agent that hangs up on every subscription must not be called in a tight loop.
        Delays::default().wait().await;
    }
}

/// Hands events on until the stream ends; says whether that is final, and why it ended.
async fn listen(mut events: EventStream, news: &mpsc::Sender<News>) -> (bool, String) {
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(reason) => return (false, reason),
        };
        let item = match (event.r#type(), event.subscribed) {
            (event::Type::Error, _) => {
                return (true, event.error.map(|error| error.message).unwrap_or_default());
            }
            (event::Type::Subscribed, Some(subscribed)) => News::Subscribed(Box::new(subscribed)),
            (_, subscribed) => News::Event(Box::new(Event { subscribed, ..event })),
        };
        if news.send(item).await.is_err() {
            return (true, "the executor ends".into());
        }
    }
    (false, "the event stream was closed".into())
}

async fn deliver(
    mut outgoing: mpsc::UnboundedReceiver<v1::TaskStatus>,
    mut sessions: watch::Receiver<Session>,
    pending: Arc<Mutex<Unacknowledged>>,
) {
    while let Some(status) = outgoing.recv().await {
        let mut delays = Delays::default();
        let uuid = status.uuid.clone();
        let is_open = || {
            let pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.updates().iter().any(|update| update.status.uuid == uuid)
        };
        let update = Call {
            r#type: Some(call::Type::Update.into()),
            update: Some(call::Update { status }),
            ..Default::default()
        };
        while is_open() {
            let Ok(session) = sessions.wait_for(Option::is_some).await.map(|session| session.clone()) else { return };
            let Some(calls) = session else { continue };
            match calls.call(update.clone()).await {
                Ok(()) => break,
                Err(reason) => tracing::warn!(%reason, "update not delivered: trying again"),
            }
            delays.wait().await;
        }
    }
}
