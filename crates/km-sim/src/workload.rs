//! What users do: create pods, delete them, and programs that end.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use km_podtask::PodKey;
use rand::Rng;

use crate::{delivery::Delivery, world::World};

/// A host port that some pods name.
pub(crate) const NAMED_PORT: i32 = 31_050;

impl World {
    /// One random act, and the time of the next.
    pub(crate) fn work(&mut self) {
        let Some(pause) = self.settings.work_pause.filter(|_| self.faulty()) else { return };
        let pause = self.around(pause);
        self.at(pause, Delivery::Work);
        if self.api.down {
            return;
        }
        match self.rng.random_range(0..20) {
            0..=11 => self.create_pod(),
            12..=14 => self.delete_pod(),
            15 => self.delete_claim(),
            16..=17 => self.end_pod(0),
            _ => self.end_pod(1),
        }
    }

    pub(crate) fn create_pod(&mut self) {
        if self.api.pods.len() >= self.settings.max_pods {
            self.delete_pod();
            return;
        }
        self.report.pods_created += 1;
        let milli: i64 = [50, 100, 250][self.rng.random_range(0..3)];
        let owner = self.rng.random_bool(0.5).then_some("replica-set");
        // Names of stateful pods come back. Where pods are counted each is another.
        let again = self.rng.random_bool(0.2) && self.settings.meter.is_none();
        let number = if again { self.rng.random_range(0..10) } else { 10 + self.report.pods_created };
        let policy = ["Always", "Never"][self.rng.random_range(0..2)];
        let named = self.settings.work_pause.is_some() && self.rng.random_bool(0.05);
        let (name, mut spec) = (format!("pod-{number}"), spec(milli, policy, named.then_some(NAMED_PORT)));
        if !named && !self.api.pods.contains_key(&PodKey::new("default", &name)) {
            self.add_claims(&mut spec);
        }
        let key = self.api.create(&name, spec, owner);
        self.note(|| format!("user creates {key}"));
    }

    fn delete_pod(&mut self) {
        if self.api.pods.is_empty() {
            return;
        }
        let number = self.rng.random_range(0..self.api.pods.len());
        let key: Option<PodKey> = self.api.pods.keys().nth(number).cloned();
        if let Some(key) = key {
            self.api.delete(&key);
            self.note(|| format!("user deletes {key}"));
        }
    }

    /// The program of some running pod ends.
    fn end_pod(&mut self, code: i32) {
        let first = self.rng.random_range(0..self.hosts.len());
        for step in 0..self.hosts.len().min(8) {
            let agent = (first + step) % self.hosts.len();
            if self.program_ends(agent, code) {
                return;
            }
        }
    }
}

fn spec(milli_cpu: i64, restart_policy: &str, host_port: Option<i32>) -> PodSpec {
    let requests = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format!("{milli_cpu}m"))),
        ("memory".to_owned(), Quantity("64Mi".to_owned())),
    ]);
    let container = Container {
        name: "main".into(),
        image: Some("image:1".into()),
        resources: Some(ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }),
        ports: Some(vec![ContainerPort { container_port: 80, host_port, ..ContainerPort::default() }]),
        ..Container::default()
    };
    PodSpec {
        containers: vec![container],
        restart_policy: Some(restart_policy.into()),
        termination_grace_period_seconds: Some(5),
        ..PodSpec::default()
    }
}
