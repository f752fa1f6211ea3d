//! The pod's status as the API server gets it.

use k8s_openapi::{
    api::core::v1::{
        ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
        HostIP, PodIP, PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::{
    backoff::go_duration,
    container::{Ended, State, Unit},
    event::{Moment, container_id},
    machine::PodMachine,
    plan::{self, Role},
};

impl PodMachine {
    pub(crate) fn build_status(&mut self, now: Moment) -> PodStatus {
        let phase = self.settle_phase();
        self.refresh_conditions(now);
        let statuses = |main: bool| -> Option<Vec<ContainerStatus>> {
            let units = self.units.iter().filter(|unit| (unit.role == Role::Main) == main);
            let list: Vec<ContainerStatus> = units.map(|unit| self.container_status(unit, now)).collect();
            (!list.is_empty()).then_some(list)
        };
        let host_ip = self.host_ip.map(|ip| ip.to_string());
        let pod_ip = self.ip.map(|ip| ip.to_string());
        let (reason, message) = match &self.verdict {
            Some((reason, message)) if self.terminal.is_some() => (Some(reason.clone()), Some(message.clone())),
            _ => (None, None),
        };
        PodStatus {
            phase: Some(phase.into()),
            reason,
            message,
            conditions: Some(self.conditions.clone()),
            host_ips: host_ip.clone().map(|ip| vec![HostIP { ip }]),
            host_ip,
            pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip,
            start_time: self.start_time.map(Time),
            init_container_statuses: statuses(false),
            container_statuses: statuses(true),
            observed_generation: self.pod.metadata.generation,
            ..Default::default()
        }
    }

    fn container_status(&self, unit: &Unit, now: Moment) -> ContainerStatus {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let id = |attempt| format!("km://{}", container_id(uid, &unit.spec.name, attempt));
        let state = self.container_state(unit, now);
        // What shows as the state doesn't show as the last state once more.
        let shown = usize::from(state.terminated.is_some());
        let current = match &unit.state {
            State::Running(_) => Some(unit.attempt),
            _ => unit.ended.first().map(|ended| ended.attempt),
        };
        ContainerStatus {
            name: unit.spec.name.clone(),
            image: unit.shown_image(),
            image_id: unit.image_id.clone(),
            container_id: current.map(id),
            ready: unit.is_ready(),
            started: Some(unit.is_started()),
            restart_count: i32::try_from(current.unwrap_or_default()).unwrap_or(i32::MAX),
            last_state: unit.ended.get(shown).map(|ended| ContainerState {
                terminated: Some(terminated(ended, id(ended.attempt))),
                ..Default::default()
            }),
            state: Some(state),
            allocated_resources: unit.granted().requests,
            resources: Some(if unit.is_running() { unit.applied.clone() } else { unit.granted() }),
            ..Default::default()
        }
    }

    fn container_state(&self, unit: &Unit, now: Moment) -> ContainerState {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        match (&unit.state, unit.ended.first()) {
            (State::Running(run), _) => ContainerState {
                running: Some(ContainerStateRunning { started_at: Some(Time(run.started_at)) }),
                ..Default::default()
            },
            (State::Exited { again: None }, Some(ended)) => {
                let id = format!("km://{}", container_id(uid, &unit.spec.name, ended.attempt));
                ContainerState { terminated: Some(terminated(ended, id)), ..Default::default() }
            }
            // It never ran and never will: nobody can say more of it.
            (_, None) if self.terminal.is_some() => ContainerState {
                terminated: Some(ContainerStateTerminated {
                    exit_code: 137,
                    reason: Some("ContainerStatusUnknown".into()),
                    message: Some("The container was never started before the pod ended".into()),
                    ..Default::default()
                }),
                ..Default::default()
            },
            _ => {
                let (reason, message) = self.waiting(unit, now);
                let waiting = ContainerStateWaiting { reason: Some(reason.into()), message };
                ContainerState { waiting: Some(waiting), ..Default::default() }
            }
        }
    }

    fn waiting(&self, unit: &Unit, now: Moment) -> (&'static str, Option<String>) {
        if let Some((reason, message)) = unit.trouble(now.mono) {
            return (reason, Some(message));
        }
        match &unit.state {
            State::Exited { again: Some(_) } => match unit.crash.delay(now.mono) {
                Some(delay) => {
                    let (delay, name) = (go_duration(delay), &unit.spec.name);
                    let pod = plan::pod_ref(&self.pod);
                    let message = format!("back-off {delay} restarting failed container={name} pod={pod}");
                    ("CrashLoopBackOff", Some(message))
                }
                None => ("ContainerCreating", None),
            },
            State::Waiting if unit.role != Role::Init && !self.is_initialized() => ("PodInitializing", None),
            State::Waiting if unit.role == Role::Init => ("PodInitializing", None),
            _ => ("ContainerCreating", None),
        }
    }
}

fn terminated(ended: &Ended, id: String) -> ContainerStateTerminated {
    let exit = &ended.exit;
    ContainerStateTerminated {
        container_id: Some(id),
        exit_code: exit.code,
        signal: exit.signal,
        reason: Some(exit.reason.clone()),
        message: (!exit.message.is_empty()).then(|| exit.message.clone()),
        started_at: exit.started_at.map(Time),
        finished_at: Some(Time(exit.finished_at)),
    }
}
