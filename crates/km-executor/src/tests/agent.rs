//! A Mesos agent that the test plays.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use km_mesos_proto::{
    resources::Resources,
    v1::{
        self,
        executor::{Call, Event, call, event},
    },
};
use tokio::sync::mpsc;

use super::journal::Journal;
use crate::agent::{Calls, EventStream, Link};

type EventSender = mpsc::UnboundedSender<Result<Event, String>>;

#[derive(Clone)]
pub struct FakeAgent {
    journal: Journal,
    events: Arc<Mutex<Option<EventSender>>>,
    pub outlived: bool,
    /// The executor's data: its static pods.
    pub data: Vec<u8>,
    /// Acknowledge updates at once.
    pub acknowledges: bool,
}

impl FakeAgent {
    pub fn new(journal: Journal) -> Self {
        Self { journal, events: Arc::default(), outlived: true, data: Vec::new(), acknowledges: true }
    }

    pub fn send(&self, event: Event) {
        self.events.lock().unwrap().as_ref().unwrap().send(Ok(event)).unwrap();
    }

    /// The agent goes away; the executor will subscribe again.
    pub fn hang_up(&self) {
        self.events.lock().unwrap().take();
    }

    pub fn launch(&self, task: v1::TaskInfo) {
        self.send(Event {
            r#type: Some(event::Type::Launch.into()),
            launch: Some(event::Launch { task }),
            ..Default::default()
        });
    }

    pub fn kill(&self, task: &str) {
        self.send(Event {
            r#type: Some(event::Type::Kill.into()),
            kill: Some(event::Kill { task_id: task.into(), kill_policy: None }),
            ..Default::default()
        });
    }

    pub fn shutdown(&self) {
        self.send(Event { r#type: Some(event::Type::Shutdown.into()), ..Default::default() });
    }

    fn subscribed(&self) -> Event {
        let resources = |text| Resources::parse(text, "*").unwrap().to_protos();
        Event {
            r#type: Some(event::Type::Subscribed.into()),
            subscribed: Some(event::Subscribed {
                executor_info: v1::ExecutorInfo {
                    executor_id: "e".into(),
                    data: Some(self.data.clone()),
                    resources: resources("cpus:0.25;mem:32"),
                    ..Default::default()
                },
                framework_info: v1::FrameworkInfo::default(),
                agent_info: v1::AgentInfo {
                    hostname: "node".into(),
                    resources: resources("cpus:2;mem:1024"),
                    ..Default::default()
                },
                container_id: None,
            }),
            ..Default::default()
        }
    }
}

#[async_trait]
impl Link for FakeAgent {
    async fn subscribe(
        &self,
        tasks: Vec<v1::TaskInfo>,
        updates: Vec<call::Update>,
    ) -> Result<(Arc<dyn Calls>, EventStream), String> {
        self.journal.note(format!("subscribe {} tasks {} updates", tasks.len(), updates.len()));
        let (sender, mut receiver) = mpsc::unbounded_channel();
        sender.send(Ok(self.subscribed())).unwrap();
        *self.events.lock().unwrap() = Some(sender);
        let events = futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed();
        Ok((Arc::new(self.clone()), events))
    }

    fn outlives_agent(&self) -> bool {
        self.outlived
    }
}

#[async_trait]
impl Calls for FakeAgent {
    async fn call(&self, call: Call) -> Result<(), String> {
        let status = call.update.unwrap().status;
        assert_eq!(status.uuid().len(), 16);
        let (state, message) = (status.state().as_str_name(), status.message());
        self.journal.note(format!("{} {state} {message}", status.task_id.value));
        if self.acknowledges {
            self.send(Event {
                r#type: Some(event::Type::Acknowledged.into()),
                acknowledged: Some(event::Acknowledged {
                    task_id: status.task_id.clone(),
                    uuid: status.uuid().to_vec(),
                }),
                ..Default::default()
            });
        }
        Ok(())
    }
}
