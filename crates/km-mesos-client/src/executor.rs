//! The executor API: one subscription at the agent with its stream of events, and calls.

use std::{collections::HashMap, sync::Arc, time::Duration};

use km_mesos_proto::v1::{
    self,
    executor::{Call, Event, call},
};

use crate::{
    ClientError, Encoding, Environment,
    environment::OnDisconnect,
    http::{Http, Patience, Post, persist},
    repeat, stream,
};

const PATH: &str = "/api/v1/executor";
/// The agent's own default for how long it waits for an executor's first subscription.
const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to try each call.
const CALL_DEADLINE: Duration = Duration::from_secs(15);
/// Longest event accepted, in bytes.
const MAX_EVENT: usize = 128 << 20;

/// The events of a subscription.
pub type EventStream = stream::EventStream<Event>;

/// A client that can subscribe, any number of times.
#[derive(Clone, Debug)]
pub struct ExecutorClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: Environment,
    encoding: Encoding,
    http: Http,
}

impl ExecutorClient {
    /// A client for the executor whose environment this is.
    ///
    /// # Errors
    /// A variable is missing or malformed.
    pub fn from_env(variables: &HashMap<String, String>) -> Result<Self, ClientError> {
        Self::new(Environment::parse(variables)?, Encoding::default())
    }

    /// A client that writes messages as told.
    ///
    /// # Errors
    /// The token can't be sent.
    pub fn new(environment: Environment, encoding: Encoding) -> Result<Self, ClientError> {
        let http = Http::new(environment.token.as_ref().map(|token| format!("Bearer {token}")), None)?;
        Ok(Self { inner: Arc::new(Inner { environment, encoding, http }) })
    }

    /// What the agent said.
    pub fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    /// Subscribes. Empty lists for the first time; later what [`crate::Unacknowledged`] holds. Tries for the recovery
    /// timeout, or, without checkpointing, as long as an agent waits for an executor.
    ///
    /// # Errors
    /// After [`ClientError::Deadline`] the executor should stop its tasks and exit. Other errors are refusals.
    pub async fn subscribe(
        &self,
        unacknowledged_tasks: Vec<v1::TaskInfo>,
        unacknowledged_updates: Vec<call::Update>,
    ) -> Result<(Session, EventStream), ClientError> {
        let environment = &self.inner.environment;
        let call = Call {
            r#type: Some(call::Type::Subscribe.into()),
            subscribe: Some(call::Subscribe { unacknowledged_tasks, unacknowledged_updates }),
            ..Default::default()
        };
        let post = self.post(call);
        let deadline = match environment.on_disconnect() {
            OnDisconnect::Exit => REGISTRATION_TIMEOUT,
            OnDisconnect::ResubscribeFor(timeout) => timeout,
        };
        // An agent that has come back waits 2 s for its executors by default (executor_reregistration_timeout) and then
        // kills the silent ones, so several attempts must fall into that time. The agent is on this machine.
        let cap = environment.subscription_backoff_max.min(Duration::from_millis(500));
        let patience = Patience { deadline, backoff_base: cap.min(Duration::from_millis(100)), backoff_cap: cap };
        persist(patience, true, |_| self.subscribe_once(&post)).await
    }

    async fn subscribe_once(&self, post: &Post) -> Result<(Session, EventStream), ClientError> {
        let (agent, response) = self.inner.http.post(&self.inner.environment.agent, post).await?;
        let reader = stream::Reader::new(agent, response, self.inner.encoding, MAX_EVENT)?;
        Ok((Session { client: self.clone() }, reader.into_stream(None)))
    }

    fn post(&self, mut call: Call) -> Post {
        let Inner { environment, encoding, .. } = &*self.inner;
        call.executor_id = environment.executor_id.clone();
        call.framework_id = environment.framework_id.clone();
        Post { path: PATH, encoding: *encoding, body: encoding.encode(&call).into(), stream_id: None }
    }
}

/// Calls of a subscribed executor.
#[derive(Clone, Debug)]
pub struct Session {
    client: ExecutorClient,
}

impl Session {
    /// Sends a call; the ids of executor and framework are filled in. `Ok` means that the agent has it; an update is
    /// safe only when ACKNOWLEDGED comes.
    ///
    /// # Errors
    /// After 403 the agent doesn't count us as subscribed.
    pub async fn call(&self, call: Call) -> Result<(), ClientError> {
        let Inner { environment, http, .. } = &*self.client.inner;
        let repeatable = repeat::executor_call(call.r#type());
        let post = self.client.post(call);
        let patience = Patience {
            deadline: CALL_DEADLINE,
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(2),
        };
        persist(patience, repeatable, |_| async { http.post(&environment.agent, &post).await.map(drop) }).await
    }
}
