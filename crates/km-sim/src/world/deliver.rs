//! Brings what happens to whom it concerns.

use km_mesos_core::{agent, master};

use super::{World, wires::Peer};
use crate::delivery::{Delivery, Reply, Wire};

impl World {
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        match delivery {
            Delivery::MasterTick => self.master_event(master::Event::Tick),
            Delivery::AgentTick(agent) => self.agent_event(agent, agent::Event::Tick),
            Delivery::SchedulerTick(process) => self.scheduler_event(process, km_scheduler::core::Event::Tick),
            Delivery::MasterStarts => self.master_starts(),
            Delivery::AgentStarts(agent) => self.agent_starts(agent),
            Delivery::ApiUp => self.api.down = false,
            Delivery::SchedulerStarts(process) => self.scheduler_starts(process),
            Delivery::Work => self.work(),
            Delivery::Fault(fault) => self.strike(fault),
            Delivery::Operation(operation) => self.operate(operation),
            Delivery::Bind => self.bind_volumes(),
            Delivery::Reconfigure => self.reconfigure(),
            Delivery::MarkGone(agent_id) => self.mark_gone(agent_id),
            Delivery::OnWire(connection, wire) => {
                if self.carries(connection, &wire) {
                    self.on_wire(connection, wire);
                } else if let (Wire::Call(_, Reply::Accept(batch)), Some(Peer::Scheduler(process))) =
                    (wire, self.peer(connection))
                {
                    self.accept_in_doubt(process, batch);
                }
            }
            Delivery::MasterSawEnd(connection) => {
                self.over(connection, true);
                self.master_event(master::Event::Disconnected { connection });
            }
            Delivery::Closed(connection) => {
                match self.peer(connection) {
                    Some(Peer::Agent(agent)) => self.link_closes(agent, connection),
                    Some(Peer::Scheduler(process)) => self.scheduler_loses(process, connection),
                    Some(Peer::Rival(rival)) => self.rival_loses(rival, connection),
                    None => {}
                }
                self.over(connection, false);
            }
            Delivery::Scheduler(process, life, what) => {
                if self.schedulers[process].life == life && self.schedulers[process].running {
                    self.bring_to_scheduler(process, what);
                }
            }
            Delivery::Rival(rival, what) => self.bring_to_rival(rival, what),
            Delivery::Executor(agent, container, what) => {
                if self.hosts[agent].executors.contains_key(&container) {
                    self.bring_to_executor(agent, &container, what);
                } else {
                    self.orphaned_request(agent, what);
                }
            }
            Delivery::ProcessStarts(agent, container) => self.process_starts(agent, &container),
            Delivery::ProcessEnds(agent, container, status) => self.process_ends(agent, &container, status),
        }
    }

    fn on_wire(&mut self, connection: master::ConnectionId, wire: Wire) {
        match (wire, self.peer(connection)) {
            (Wire::Subscribe(subscribe), _) => self.subscribe_arrives(connection, subscribe),
            (Wire::Call(call, reply), _) => self.call_arrives(connection, *call, reply),
            (Wire::ToFramework(event), Some(Peer::Scheduler(process))) => {
                self.scheduler_hears(process, connection, *event);
            }
            (Wire::ToFramework(event), Some(Peer::Rival(rival))) => self.rival_hears(rival, connection, *event),
            (Wire::Register(agent, message), _) => self.link_opens(agent, connection, *message),
            (Wire::ToMaster(message), _) => self.master_hears(connection, *message),
            (Wire::ToAgent(message), Some(Peer::Agent(agent))) => self.agent_hears(agent, connection, *message),
            (Wire::ToFramework(_) | Wire::ToAgent(_), _) => {}
        }
    }
}
