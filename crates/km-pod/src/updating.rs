//! What may change in a pod while it runs: its metadata, its deadline and grace, its images, its resources.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::{
    container::State,
    event::{Action, Level, Moment},
    machine::{PodMachine, pod_event},
};

impl PodMachine {
    /// Takes over a newer form of the pod. What is not granted of its resources stays as it was.
    pub(crate) fn update(&mut self, now: Moment, mut pod: Pod, out: &mut Vec<Action>) {
        if pod.metadata.uid != self.pod.metadata.uid {
            return;
        }
        if let Some(spec) = &mut pod.spec {
            self.resize(spec, out);
            for container in containers(spec) {
                self.change_image(container);
            }
            self.move_deadline(now, spec);
        }
        let foreign = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        self.adopt_conditions(foreign);
        self.pod = pod;
    }

    fn change_image(&mut self, container: &Container) {
        let Some(unit) = self.units.iter_mut().find(|unit| unit.spec.name == container.name) else { return };
        if unit.spec.image == container.image {
            return;
        }
        unit.spec.image.clone_from(&container.image);
        unit.pull.reset();
        if matches!(unit.state, State::NoImage { .. }) {
            unit.state = State::Waiting;
        }
    }

    fn move_deadline(&mut self, now: Moment, spec: &PodSpec) {
        let (Some(seconds), Some(begun)) = (spec.active_deadline_seconds, self.start_time) else { return };
        let passed = u64::try_from(now.wall.duration_since(begun).as_secs()).unwrap_or_default();
        let left = u64::try_from(seconds).unwrap_or_default().saturating_sub(passed);
        self.deadline = Some(now.mono + Duration::from_secs(left));
    }

    /// Grants the resources that the spec asks for, all or none: none when the pod's task does not hold so much.
    fn resize(&mut self, spec: &mut PodSpec, out: &mut Vec<Action>) {
        let granted = |name: &str| self.units.iter().find(|unit| unit.spec.name == name).map(|unit| unit.granted());
        let asks = |container: &Container| {
            granted(&container.name).is_some_and(|granted| container.resources.clone().unwrap_or_default() != granted)
        };
        if !containers(spec).any(asks) {
            self.refusal = None;
            return;
        }
        match self.allotment.map_or(Ok(()), |allotment| allotment.check(spec)) {
            Ok(()) => {
                self.refusal = None;
                for container in containers(spec) {
                    if let Some(unit) = self.units.iter_mut().find(|unit| unit.spec.name == container.name) {
                        unit.grant(container.resources.clone());
                    }
                }
            }
            Err(message) => {
                for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
                    if let Some(unit) = self.units.iter().find(|unit| unit.spec.name == container.name) {
                        container.resources.clone_from(&unit.spec.resources);
                    }
                }
                if self.refusal.as_ref() != Some(&message) {
                    pod_event(out, Level::Warning, "ResizeInfeasible", message.clone());
                    self.refusal = Some(message);
                }
            }
        }
    }
}

fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}
