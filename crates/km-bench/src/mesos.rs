//! What the do-nothing frameworks say to a Mesos master.

use anyhow::Context;
use km_mesos_client::scheduler::Session;
use km_mesos_proto::{
    resources::Resources,
    v1::{
        self, Filters,
        offer::{Operation, operation},
        scheduler::{Call, call},
    },
};
use tokio::task::JoinSet;

/// A framework without roles of its own, that hears of partitions.
pub fn framework(checkpoint: bool) -> v1::FrameworkInfo {
    use v1::framework_info::{Capability, capability::Type};
    let capability = |kind: Type| Capability { r#type: Some(kind as i32) };
    v1::FrameworkInfo {
        user: "root".to_owned(),
        name: "null".to_owned(),
        checkpoint: Some(checkpoint),
        roles: vec!["*".to_owned()],
        capabilities: vec![capability(Type::MultiRole), capability(Type::PartitionAware)],
        ..v1::FrameworkInfo::default()
    }
}

/// How many tasks fit into an offer.
pub fn room(offer: &v1::Offer, executor: Option<&Resources>, task: &Resources) -> anyhow::Result<usize> {
    let mut offered = Resources::from_protos(&offer.resources)?;
    offered.unallocate();
    let left = |name: &str| {
        let executor = executor.map_or(0, |executor| executor.scalar(name).milli());
        ((offered.scalar(name).milli() - executor) / task.scalar(name).milli()).max(0)
    };
    Ok(usize::try_from(left("cpus").min(left("mem")))?)
}

/// Launches tasks on an offer. With no task it is the offer's decline.
pub fn launch(offer: &v1::Offer, tasks: Vec<v1::TaskInfo>) -> Call {
    let launch = Operation {
        r#type: Some(operation::Type::Launch as i32),
        launch: Some(operation::Launch { task_infos: tasks }),
        ..Operation::default()
    };
    Call {
        r#type: Some(call::Type::Accept.into()),
        accept: Some(call::Accept {
            offer_ids: vec![offer.id.clone()],
            operations: vec![launch],
            filters: Some(Filters { refuse_seconds: Some(0.0) }),
        }),
        ..Call::default()
    }
}

/// Acknowledgements on their way: waiting for each answer would make the way to the master the limit.
pub struct Acknowledgements {
    session: Session,
    under_way: JoinSet<Result<(), km_mesos_client::ClientError>>,
}

impl Acknowledgements {
    pub fn new(session: &Session) -> Self {
        Self { session: session.clone(), under_way: JoinSet::new() }
    }

    /// Sends the one for this status, if it wants one. An error is that of an earlier one.
    pub fn send(&mut self, status: &v1::TaskStatus) -> anyhow::Result<()> {
        if let Some(call) = acknowledgement(status) {
            let session = self.session.clone();
            self.under_way.spawn(async move { session.call(call).await });
        }
        while let Some(ended) = self.under_way.try_join_next() {
            ended.context("an acknowledgement panicked")?.context("the master took no acknowledgement")?;
        }
        Ok(())
    }
}

fn acknowledgement(status: &v1::TaskStatus) -> Option<Call> {
    let (uuid, agent_id) = (status.uuid.clone()?, status.agent_id.clone()?);
    let acknowledge = call::Acknowledge { agent_id, task_id: status.task_id.clone(), uuid };
    Some(Call { r#type: Some(call::Type::Acknowledge.into()), acknowledge: Some(acknowledge), ..Call::default() })
}
