//! Calls to the master, and what their senders are told of them.

use std::time::Duration;

use km_mesos_core::master::{self, ConnectionId};
use km_mesos_proto::v1::{self, scheduler::Call};
use km_scheduler::{
    core::{Action, CallOutcome, FrameworkAnswer},
    wire,
};
use rand::Rng;

use super::subscription::stream_id;
use crate::{
    delivery::{Delivery, Reply, ToScheduler, Wire},
    world::{Peer, World},
};

impl World {
    pub(super) fn scheduler_calls(&mut self, process: usize, action: Action) {
        self.judge_call(process, &action);
        let reply = match &action {
            Action::Accept { batch, .. } => Reply::Accept(*batch),
            Action::UpdateFramework { number, .. } => Reply::Update(*number),
            _ => Reply::Nothing,
        };
        let scheduler = &self.schedulers[process];
        let Some(connection) = scheduler.connection.filter(|_| scheduler.subscribed) else {
            if let Reply::Accept(batch) = reply {
                let refused = ToScheduler::AcceptResult(batch, CallOutcome::Refused);
                self.at_scheduler(process, Duration::ZERO, refused);
            }
            return;
        };
        let unordered = matches!(action, Action::Acknowledge { .. });
        let Some(mut call) = wire::call(action) else { return };
        call.framework_id = scheduler.framework_id.clone().map(v1::FrameworkId::from);
        let call = Box::new(call);
        if unordered {
            // These are sent beside the others.
            let delay = self.latency();
            self.at(delay, Delivery::OnWire(connection, Wire::Call(call, Reply::Nothing)));
            return;
        }
        // A call that fails ends the subscription, as the shell does. It may have arrived all the same.
        let (lost, arrives) = (self.mishap(0.005), self.rng.random_bool(0.5));
        if !lost || arrives {
            self.send_to_master(connection, Wire::Call(call, if lost { Reply::Nothing } else { reply }));
        }
        if lost {
            if let Reply::Accept(batch) = reply {
                self.accept_in_doubt(process, batch);
            }
            self.break_scheduler_stream(process);
        }
    }

    /// The answer to an ACCEPT got lost, or the call itself.
    pub(crate) fn accept_in_doubt(&mut self, process: usize, batch: u64) {
        let delay = self.around(Duration::from_secs(2));
        self.at_scheduler(process, delay, ToScheduler::AcceptResult(batch, CallOutcome::InDoubt));
    }

    /// A call of any framework.
    pub(crate) fn call_arrives(&mut self, connection: ConnectionId, call: Call, reply: Reply) {
        let stream_id = Some(stream_id(connection));
        let event = master::Event::SchedulerCall { stream_id, principal: None, call: Box::new(call) };
        let Some(Peer::Scheduler(process)) = self.peer(connection) else {
            self.master_event(event);
            return;
        };
        let answer = self.master_event_answered(event);
        let status = answer.as_ref().map(|answer| answer.status);
        let told = match reply {
            Reply::Nothing => return,
            Reply::Accept(batch) if status == Some(202) => ToScheduler::AcceptResult(batch, CallOutcome::Accepted),
            Reply::Accept(batch) => ToScheduler::AcceptResult(batch, CallOutcome::Refused),
            Reply::Update(number) if status == Some(200) => {
                ToScheduler::FrameworkAnswer(number, FrameworkAnswer::Accepted)
            }
            Reply::Update(number) => {
                let reason = format!("{answer:?}");
                ToScheduler::FrameworkAnswer(number, FrameworkAnswer::Refused { reason, keeps: false })
            }
        };
        let delay = self.latency();
        self.at_scheduler(process, delay, told);
    }

    /// The invariants that a call may break.
    fn judge_call(&mut self, process: usize, action: &Action) {
        match action {
            Action::Accept { offers, tasks, refuse, .. } => {
                let ids: Vec<&str> = tasks.iter().map(|task| task.task_id.value.as_str()).collect();
                self.note(|| format!("scheduler {process} launches {ids:?}, refuse {refuse:?}"));
                if let Err(broken) = self.offers.accepted(process, offers, tasks) {
                    self.violate(|| broken);
                }
                self.check_task_ids(tasks);
                self.check_wanted(process, tasks);
                self.check_claims(tasks);
            }
            Action::Decline { offers, reason, refuse } => {
                let count = offers.len();
                self.note(|| format!("scheduler {process} declines {count} offers for {refuse:?}: {reason:?}"));
                if let Err(broken) = self.offers.declined(process, offers) {
                    self.violate(|| broken);
                }
            }
            Action::Kill { task_id, agent_id } => {
                self.note(|| format!("scheduler {process} kills {task_id} on {agent_id:?}"));
                self.check_kill(task_id);
            }
            Action::Acknowledge { task_id, uuid, .. } => self.check_acknowledgement(process, task_id, uuid),
            Action::Reconcile(tasks) => {
                let count = tasks.len();
                self.note(|| format!("scheduler {process} reconciles {count} tasks"));
            }
            other => self.note(|| format!("scheduler {process}: {other:?}")),
        }
    }
}
