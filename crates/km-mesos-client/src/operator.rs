//! The operator API of the master: one call, one answer.

use std::time::Duration;

use km_mesos_proto::v1::{
    maintenance::Schedule,
    master::{Call, Response, call, response},
};

use crate::{
    ClientError, Encoding, Masters,
    http::{Credentials, Http, Patience, Post, failure, persist},
    repeat,
};

const PATH: &str = "/api/v1";

/// Asks and tells the leading master.
#[derive(Clone, Debug)]
pub struct OperatorClient {
    masters: Masters,
    encoding: Encoding,
    deadline: Duration,
    http: Http,
}

impl OperatorClient {
    /// A client; nothing is sent yet. `deadline` is for each call, waiting for a leader included.
    ///
    /// # Errors
    /// The credentials can't be sent.
    pub fn new(
        masters: impl Into<Masters>,
        encoding: Encoding,
        credentials: Option<&Credentials>,
        deadline: Duration,
    ) -> Result<Self, ClientError> {
        let masters = masters.into();
        let http = Http::new(credentials.map(Credentials::authorization), masters.tls())?;
        Ok(Self { masters, encoding, deadline, http })
    }

    /// Sends a call. Calls that change something are answered by an empty response.
    ///
    /// # Errors
    /// The master's status and reason, or why it can't be reached.
    pub async fn call(&self, call: Call) -> Result<Response, ClientError> {
        let post =
            Post { path: PATH, encoding: self.encoding, body: self.encoding.encode(&call).into(), stream_id: None };
        let patience = Patience {
            deadline: self.deadline,
            backoff_base: Duration::from_millis(100),
            backoff_cap: Duration::from_secs(5),
        };
        persist(patience, repeat::operator_call(call.r#type()), |number| self.call_once(&post, number)).await
    }

    /// Tasks, executors, frameworks and agents.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn get_state(&self) -> Result<response::GetState, ClientError> {
        let response = self.call(simple(call::Type::GetState)).await?;
        response.get_state.ok_or_else(|| missing("get_state"))
    }

    /// The agents.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn get_agents(&self) -> Result<response::GetAgents, ClientError> {
        let response = self.call(simple(call::Type::GetAgents)).await?;
        response.get_agents.ok_or_else(|| missing("get_agents"))
    }

    /// Which machines are to be away, and when.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn get_maintenance_schedule(&self) -> Result<Schedule, ClientError> {
        let response = self.call(simple(call::Type::GetMaintenanceSchedule)).await?;
        let schedule = response.get_maintenance_schedule.ok_or_else(|| missing("get_maintenance_schedule"))?;
        Ok(schedule.schedule)
    }

    async fn call_once(&self, post: &Post, number: usize) -> Result<Response, ClientError> {
        let masters = self.masters.candidates().await?;
        let (master, response) = self.http.post(&masters[number % masters.len()], post).await?;
        let body = response.bytes().await.map_err(|error| failure(&master, &error))?;
        if body.is_empty() { Ok(Response::default()) } else { self.encoding.decode(&body) }
    }
}

fn simple(kind: call::Type) -> Call {
    Call { r#type: Some(kind.into()), ..Default::default() }
}

fn missing(field: &str) -> ClientError {
    ClientError::Decode(format!("the response has no '{field}'"))
}
