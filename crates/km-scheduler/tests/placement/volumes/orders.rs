//! What holds in any order of watches, writes and answers.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Pod(usize),
    Claim(usize),
    Volume(usize),
    ShowClaim(usize),
    ShowVolume(usize),
    /// Somebody else writes to a volume.
    Touch(usize),
    /// Somebody else takes a reservation back.
    Free(usize),
    /// The oldest write arrives, and its answer too or not.
    Write(bool),
    Lose,
    Bind,
    Run,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = 0..3_usize;
    let step = prop_oneof![
        2 => few.clone().prop_map(Step::Pod),
        2 => few.clone().prop_map(Step::Claim),
        2 => few.clone().prop_map(Step::Volume),
        3 => few.clone().prop_map(Step::ShowClaim),
        3 => few.clone().prop_map(Step::ShowVolume),
        1 => few.clone().prop_map(Step::Touch),
        1 => few.prop_map(Step::Free),
        3 => any::<bool>().prop_map(Step::Write),
        1 => Just(Step::Lose),
        3 => Just(Step::Bind),
        3 => Just(Step::Run),
    ];
    prop::collection::vec(step, 0..60)
}

impl Disks {
    fn is_reserved(&self, volume: &str) -> bool {
        let volume = self.volumes.get(volume);
        volume.is_some_and(|volume| !volume["spec"]["claimRef"].is_null() && volume["status"]["phase"] != "Bound")
    }

    fn take(&mut self, step: &Step) {
        let unavailable = || ApiReply::Failed(ApiFailure::Unavailable("no answer".to_owned()));
        match *step {
            Step::Pod(number) => {
                let name = format!("p{number}");
                if !self.world.api.pods.contains_key(&PodKey::new("default", &name)) {
                    self.world.create(&name, mounting(&[&format!("c{number}")]));
                }
            }
            Step::Claim(number) if !self.claims.contains_key(&format!("c{number}")) => {
                self.claim(&format!("c{number}"), "local");
            }
            Step::Volume(number) if !self.volumes.contains_key(&format!("v{number}")) => {
                self.volume(&format!("v{number}"), ["host1", "host2"][number % 2]);
            }
            Step::ShowClaim(number) => self.show_claim(&format!("c{number}")),
            Step::ShowVolume(number) => self.show_volume(&format!("v{number}")),
            Step::Touch(number) if self.volumes.contains_key(&format!("v{number}")) => {
                self.change(false, &format!("v{number}"), |volume| volume["metadata"]["labels"] = json!({ "a": "b" }));
            }
            Step::Free(number) if self.is_reserved(&format!("v{number}")) => {
                self.change(false, &format!("v{number}"), |volume| _ = volume["spec"]["claimRef"].take());
            }
            Step::Write(answered) if !self.writes.is_empty() => {
                let (op, reply) = self.apply();
                self.answer((op, if answered { reply } else { unavailable() }));
            }
            Step::Lose if !self.writes.is_empty() => {
                let (Action::ReserveVolume { op, .. } | Action::SelectNode { op, .. }) = self.writes.remove(0) else {
                    panic!("only these are collected")
                };
                self.answer((op, unavailable()));
            }
            Step::Bind => self.bind(),
            Step::Run => self.run(1),
            _ => {}
        }
        self.collect();
        self.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_pod_starts_before_its_claim_is_bound_and_all_start_at_last(steps in steps()) {
        let mut disks = Disks::new(2);
        for step in &steps {
            disks.take(step);
        }
        for number in 0..3 {
            disks.take(&Step::Pod(number));
            disks.take(&Step::Claim(number));
            disks.take(&Step::Volume(number));
        }
        let pods = [0, 1, 2].map(|number| PodKey::new("default", &format!("p{number}")));
        for _ in 0..30 {
            while !disks.writes.is_empty() {
                disks.take(&Step::Write(true));
            }
            disks.bind();
            for number in 0..3 {
                disks.take(&Step::ShowVolume(number));
                disks.take(&Step::ShowClaim(number));
            }
            disks.take(&Step::Run);
        }
        for pod in &pods {
            prop_assert!(disks.world.is_running(pod), "{pod}: {:?}", disks.world.core.explain_page(disks.world.now, pod));
        }
        let mut used: Vec<&Value> = disks.claims.values().map(|claim| &claim["spec"]["volumeName"]).collect();
        used.dedup();
        prop_assert_eq!(used.len(), 3, "two claims have a volume");
    }
}
