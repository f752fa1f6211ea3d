//! What users do: create pods, delete them, and programs that end.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use km_podtask::PodKey;
use rand::Rng;

use crate::world::World;

impl World {
    /// One random act.
    pub(crate) fn work(&mut self) {
        if self.api.down {
            return;
        }
        match self.rng.random_range(0..10) {
            0..=5 => self.create_pod(),
            6..=7 => self.delete_pod(),
            8 => self.end_pod("Succeeded"),
            _ => self.end_pod("Failed"),
        }
    }

    fn create_pod(&mut self) {
        if self.api.pods.len() >= self.settings.max_pods {
            self.delete_pod();
            return;
        }
        self.report.pods_created += 1;
        let milli: i64 = [50, 100, 250][self.rng.random_range(0..3)];
        let owner = self.rng.random_bool(0.5).then_some("replica-set");
        let name = format!("pod-{}", self.report.pods_created);
        let key = self.api.create(&name, spec(milli), owner);
        self.note(|| format!("user creates {key}"));
    }

    fn delete_pod(&mut self) {
        let keys: Vec<PodKey> = self.api.pods.keys().cloned().collect();
        if !keys.is_empty() {
            let key = &keys[self.rng.random_range(0..keys.len())];
            self.api.delete(key);
            self.note(|| format!("user deletes {key}"));
        }
    }

    /// The program of some running pod ends.
    fn end_pod(&mut self, phase: &'static str) {
        let mut running = Vec::new();
        for (number, agent) in self.agents.iter().enumerate() {
            for (container, executor) in &agent.executors {
                let tasks = executor.tasks.iter().filter(|(_, task)| task.is_running());
                running.extend(tasks.map(|(id, _)| (number, container.clone(), id.clone())));
            }
        }
        if !running.is_empty() {
            let (agent, container, task) = running.swap_remove(self.rng.random_range(0..running.len()));
            self.note(|| format!("{task} ends as {phase}"));
            self.program_ends(agent, &container, &task, phase);
        }
    }
}

fn spec(milli_cpu: i64) -> PodSpec {
    let requests = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format!("{milli_cpu}m"))),
        ("memory".to_owned(), Quantity("64Mi".to_owned())),
    ]);
    let container = Container {
        name: "main".into(),
        resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
        ports: Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]),
        ..Container::default()
    };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}
