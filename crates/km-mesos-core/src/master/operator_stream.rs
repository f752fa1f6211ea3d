//! The event streams of operators: what frameworks, tasks and agents go through.

use km_mesos_proto::v1::{
    self, TaskState, TaskStatus,
    master::{
        Event,
        event::{self, Type as EventType},
    },
};

use super::{Action, ConnectionId, Master, Peer, event::Timer, framework::Framework};

impl Master {
    pub(super) fn operator_subscribe(&mut self, connection: ConnectionId) {
        let subscribed = event::Subscribed {
            get_state: Some(self.get_state()),
            heartbeat_interval_seconds: Some(self.config.heartbeat_interval.as_secs_f64()),
        };
        self.peers.insert(connection, Peer::Operator);
        self.operators.push_back(connection);
        self.tell_operator(
            connection,
            EventType::Subscribed,
            Event { subscribed: Some(subscribed), ..Default::default() },
        );
        self.tell_operator(connection, EventType::Heartbeat, Event::default());
        self.arm(self.config.heartbeat_interval, Timer::Heartbeat(connection));
        while self.operators.len() > self.config.max_operator_streams
            && let Some(oldest) = self.operators.pop_front()
        {
            self.close(oldest);
        }
    }

    pub(super) fn tell_operator(&mut self, connection: ConnectionId, kind: EventType, mut event: Event) {
        event.r#type = Some(kind as i32);
        self.out.push(Action::ToOperator { connection, event: Box::new(event) });
    }

    fn tell_operators(&mut self, kind: EventType, event: impl Fn() -> Event) {
        for connection in self.operators.clone() {
            self.tell_operator(connection, kind, event());
        }
    }

    pub(super) fn task_added_event(&mut self, task: v1::Task) {
        self.tell_operators(EventType::TaskAdded, || Event {
            task_added: Some(event::TaskAdded { task: task.clone() }),
            ..Default::default()
        });
    }

    pub(super) fn task_updated_event(&mut self, framework: &str, status: &TaskStatus, state: TaskState) {
        self.tell_operators(EventType::TaskUpdated, || Event {
            task_updated: Some(event::TaskUpdated {
                framework_id: super::calls::framework_id(framework),
                status: status.clone(),
                state: state as i32,
            }),
            ..Default::default()
        });
    }

    pub(super) fn framework_added_event(&mut self, id: &str) {
        let Some(framework) = self.frameworks.get(id).map(|framework| self.framework_in_events(framework)) else {
            return;
        };
        self.tell_operators(EventType::FrameworkAdded, || Event {
            framework_added: Some(event::FrameworkAdded { framework: framework.clone() }),
            ..Default::default()
        });
    }

    pub(super) fn update_framework_event(&mut self, id: &str) {
        if self.operators.is_empty() {
            return;
        }
        let Some(framework) = self.frameworks.get(id).map(|framework| self.framework_in_events(framework)) else {
            return;
        };
        self.tell_operators(EventType::FrameworkUpdated, || Event {
            framework_updated: Some(event::FrameworkUpdated { framework: framework.clone() }),
            ..Default::default()
        });
    }

    pub(super) fn framework_removed_event(&mut self, framework: &Framework) {
        self.tell_operators(EventType::FrameworkRemoved, || Event {
            framework_removed: Some(event::FrameworkRemoved { framework_info: framework.info.clone() }),
            ..Default::default()
        });
    }

    pub(super) fn agent_added_event(&mut self, id: &str) {
        let Some(agent) = self.agents.get(id).map(|agent| self.agent_view(agent)) else { return };
        self.tell_operators(EventType::AgentAdded, || Event {
            agent_added: Some(event::AgentAdded { agent: agent.clone() }),
            ..Default::default()
        });
    }

    pub(super) fn agent_removed_event(&mut self, agent_id: v1::AgentId) {
        self.tell_operators(EventType::AgentRemoved, || Event {
            agent_removed: Some(event::AgentRemoved { agent_id: agent_id.clone() }),
            ..Default::default()
        });
    }
}
