//! A driver for a real Mesos master, over the v1 scheduler API.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use km_mesos_client::{
    ClientError,
    backoff::Backoff,
    scheduler::{EventStream, Options, Session, connect},
};
use km_mesos_proto::v1::{
    self,
    offer::{Operation, operation},
    scheduler::{Call, Event as Wire, call, event},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Driver, DriverError, Scheduler};

/// Takes calls at any time and sends them, one after the other, while there is a subscription.
pub struct MesosDriver {
    calls: mpsc::UnboundedSender<Call>,
}

/// The other end of a [`MesosDriver`]: the subscription.
pub struct Connection {
    options: Options,
    calls: mpsc::UnboundedReceiver<Call>,
}

impl MesosDriver {
    /// A driver and its connection, which does nothing until it runs.
    pub fn new(options: Options) -> (Arc<Self>, Connection) {
        let (sender, calls) = mpsc::unbounded_channel();
        (Arc::new(Self { calls: sender }), Connection { options, calls })
    }

    fn send(&self, kind: call::Type, call: Call) -> Result<(), DriverError> {
        let call = Call { r#type: Some(kind as i32), ..call };
        self.calls.send(call).map_err(|_ended| "the connection to Mesos has ended".into())
    }
}

impl Driver for MesosDriver {
    fn launch_tasks(&self, offers: Vec<v1::OfferId>, tasks: Vec<v1::TaskInfo>) -> Result<(), DriverError> {
        let launch = Operation {
            r#type: Some(operation::Type::Launch as i32),
            launch: Some(operation::Launch { task_infos: tasks }),
            ..Operation::default()
        };
        // What is left of an offer may come back at once: other pods may wait for it.
        let filters = Some(v1::Filters { refuse_seconds: Some(0.0) });
        let accept = Some(call::Accept { offer_ids: offers, operations: vec![launch], filters });
        self.send(call::Type::Accept, Call { accept, ..Call::default() })
    }

    fn kill_task(&self, task: &v1::TaskId) -> Result<(), DriverError> {
        let kill = Some(call::Kill { task_id: task.clone(), agent_id: None, kill_policy: None });
        self.send(call::Type::Kill, Call { kill, ..Call::default() })
    }

    fn decline_offers(&self, offers: Vec<v1::OfferId>) -> Result<(), DriverError> {
        let decline = Some(call::Decline { offer_ids: offers, filters: None });
        self.send(call::Type::Decline, Call { decline, ..Call::default() })
    }
}

impl Connection {
    /// Subscribes, hands every event to the scheduler, and subscribes again when the connection breaks, until `stop`.
    ///
    /// # Errors
    /// When the master refuses the framework for good.
    pub async fn run(
        mut self,
        scheduler: &Scheduler,
        mut framework: v1::FrameworkInfo,
        stop: &CancellationToken,
    ) -> Result<(), ClientError> {
        let client = connect(self.options.clone())?;
        let mut pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
        loop {
            let subscribed = tokio::select! {
                subscribed = client.subscribe(framework.clone(), Vec::new()) => subscribed,
                () = stop.cancelled() => return Ok(()),
            };
            match subscribed {
                Ok((session, stream)) => {
                    pauses = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
                    framework.id = Some(session.framework_id().clone());
                    let ended = tokio::select! {
                        ended = self.follow(&session, stream, scheduler) => ended,
                        () = stop.cancelled() => return Ok(()),
                    };
                    scheduler.disconnected();
                    // Offers die with the connection they were made on.
                    scheduler.offers().into_iter().for_each(|offer| scheduler.offer_rescinded(offer.id));
                    if let Err(ClientError::Refused(message)) = ended {
                        scheduler.error(&message);
                        return Err(ClientError::Refused(message));
                    }
                }
                Err(ClientError::Refused(message)) => {
                    scheduler.error(&message);
                    return Err(ClientError::Refused(message));
                }
                Err(error) => tracing::warn!(%error, "can't subscribe yet"),
            }
            tokio::select! {
                () = tokio::time::sleep(pauses.next(rand::random())) => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    async fn follow(
        &mut self,
        session: &Session,
        mut stream: EventStream,
        scheduler: &Scheduler,
    ) -> Result<(), ClientError> {
        loop {
            tokio::select! {
                event = stream.next() => match event {
                    Some(event) => deliver(session, event?, scheduler).await?,
                    None => return Ok(()),
                },
                call = self.calls.recv() => match call {
                    Some(call) => carry_out(session, call).await?,
                    // The driver is gone, so nobody makes calls any more.
                    None => futures::future::pending().await,
                },
            }
        }
    }
}

/// Sends a call. When it fails, the subscription is renewed, and reconciliation tells what became of the tasks.
async fn carry_out(session: &Session, call: Call) -> Result<(), ClientError> {
    let kind = call.r#type();
    session.call(call).await.inspect_err(|error| tracing::warn!(call = kind.as_str_name(), %error, "a call failed"))
}

async fn deliver(session: &Session, wire: Wire, scheduler: &Scheduler) -> Result<(), ClientError> {
    match wire.r#type() {
        event::Type::Subscribed => {
            let subscribed = wire.subscribed.unwrap_or_default();
            let master = subscribed.master_info.unwrap_or_default();
            if scheduler.framework_id().as_ref() == Some(&subscribed.framework_id) {
                scheduler.reregistered(master);
            } else {
                scheduler.registered(subscribed.framework_id, master);
            }
            return reconcile(session, scheduler).await;
        }
        event::Type::Offers => scheduler.resource_offers(wire.offers.unwrap_or_default().offers),
        event::Type::Rescind => {
            if let Some(rescind) = wire.rescind {
                scheduler.offer_rescinded(rescind.offer_id);
            }
        }
        event::Type::Update => {
            let Some(update) = wire.update else { return Ok(()) };
            let acknowledge = acknowledgement(&update.status);
            scheduler.status_update(update.status);
            if let Some(acknowledge) = acknowledge {
                return session.call(acknowledge).await;
            }
        }
        event::Type::Message => {
            if let Some(message) = wire.message {
                scheduler.framework_message(&message.executor_id, &message.agent_id, &message.data);
            }
        }
        event::Type::Failure => match wire.failure.unwrap_or_default() {
            event::Failure { agent_id: Some(agent), executor_id: Some(executor), status } => {
                scheduler.executor_lost(&executor, &agent, status.unwrap_or_default());
            }
            event::Failure { agent_id: Some(agent), .. } => scheduler.slave_lost(&agent),
            event::Failure { .. } => {}
        },
        event::Type::Error => {
            return Err(ClientError::Refused(wire.error.map(|error| error.message).unwrap_or_default()));
        }
        _ => {}
    }
    Ok(())
}

/// Asks what became of the launched tasks while nobody listened.
async fn reconcile(session: &Session, scheduler: &Scheduler) -> Result<(), ClientError> {
    let tasks = scheduler.launched();
    if tasks.is_empty() {
        return Ok(());
    }
    let task = |(task, agent): (String, String)| call::reconcile::Task {
        task_id: task.into(),
        agent_id: (!agent.is_empty()).then(|| agent.into()),
    };
    let reconcile = Some(call::Reconcile { tasks: tasks.into_iter().map(task).collect() });
    let call = Call { r#type: Some(call::Type::Reconcile as i32), reconcile, ..Call::default() };
    session.call(call).await
}

/// Updates without uuid are never acknowledged.
fn acknowledgement(status: &v1::TaskStatus) -> Option<Call> {
    let acknowledge = call::Acknowledge {
        agent_id: status.agent_id.clone()?,
        task_id: status.task_id.clone(),
        uuid: status.uuid.clone().filter(|uuid| !uuid.is_empty())?,
    };
    let kind = Some(call::Type::Acknowledge as i32);
    Some(Call { r#type: kind, acknowledge: Some(acknowledge), ..Call::default() })
}
