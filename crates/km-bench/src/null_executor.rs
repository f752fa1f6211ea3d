//! The executor of the framework that does nothing: a task is RUNNING when it arrives.

use std::collections::HashMap;

use anyhow::Context;
use futures::StreamExt;
use km_mesos_client::ExecutorClient;
use km_mesos_proto::v1::{
    self,
    executor::{Call, call, event},
};

use crate::task::status;

pub async fn run() -> anyhow::Result<()> {
    let variables: HashMap<String, String> = std::env::vars().collect();
    let client = ExecutorClient::from_env(&variables).context("this is started by a Mesos agent")?;
    let (session, mut events) = client.subscribe(Vec::new(), Vec::new()).await.context("can't subscribe")?;
    while let Some(event) = events.next().await {
        let event = event.context("the agent's stream broke")?;
        let task = match event.r#type() {
            event::Type::Launch => event.launch.map(|launch| launch.task.task_id),
            event::Type::Shutdown => return Ok(()),
            _ => None,
        };
        let Some(task) = task else { continue };
        let status = status(&task, None, v1::TaskState::TaskRunning);
        let update =
            Call { r#type: Some(call::Type::Update.into()), update: Some(call::Update { status }), ..Call::default() };
        session.call(update).await.context("the agent took no update")?;
    }
    Ok(())
}
