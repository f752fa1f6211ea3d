//! Nothing is taken that isn't offered: amounts and ports, by role.

mod mesos;

use std::collections::BTreeMap;

use km_placement::{Engine, HostPort, PendingPod, Policy, Ports, Strategy, Supply};
use mesos::{Agent, agent, amounts, engine, fresh, pod, share};
use proptest::prelude::*;

/// What is offered of each role: CPU, memory, ports.
fn offered(supply: &Supply) -> BTreeMap<String, (i64, i64, usize)> {
    let mut by_role: BTreeMap<String, (i64, i64, usize)> = BTreeMap::new();
    for share in supply.pools.iter().flat_map(|pool| &pool.shares) {
        let ports = match &share.ports {
            Ports::Only(set) => set.len(),
            Ports::Any => panic!("Mesos offers ports by number"),
        };
        let sum = by_role.entry(share.role.clone()).or_default();
        *sum = (sum.0 + share.free.milli_cpu, sum.1 + share.free.memory_bytes, sum.2 + ports);
    }
    by_role
}

/// All roles together.
fn sum(by_role: &BTreeMap<String, (i64, i64, usize)>) -> (i64, i64, usize) {
    by_role.values().fold((0, 0, 0), |all, one| (all.0 + one.0, all.1 + one.1, all.2 + one.2))
}

fn place(engine: &mut Engine, pods: &[PendingPod], agents: &[Agent]) {
    for wanted in pods {
        let before: Vec<Supply> =
            agents.iter().map(|agent| engine.supply(&agent.name).expect("told").clone()).collect();
        let placed = engine.place(wanted);
        for (agent, before) in agents.iter().zip(&before) {
            let after = engine.supply(&agent.name).expect("told").clone();
            let here = placed.as_ref().is_ok_and(|placed| placed.node == agent.name);
            if !here {
                assert_eq!(after, *before, "{} was touched", agent.name);
                continue;
            }
            let (had, has) = (offered(before), offered(&after));
            assert!(has.values().all(|left| left.0 >= 0 && left.1 >= 0), "too much was taken: {has:?}");
            let own = before.executors.as_ref().map_or(amounts(0, 0), |_| amounts(250, 128));
            let foreign = had.iter().filter(|(role, _)| *role != "*" && !wanted.need.roles.contains(role));
            for (role, had) in foreign {
                assert_eq!(has[role], *had, "{role} isn't one of the pod's roles");
            }
            let (had, has) = (sum(&had), sum(&has));
            let need = &wanted.need;
            assert_eq!(had.0 - has.0, need.amounts.milli_cpu + own.milli_cpu);
            assert_eq!(had.1 - has.1, need.amounts.memory_bytes + own.memory_bytes);
            assert_eq!(had.2 - has.2, need.ports.named.len() + need.ports.any);
            assert!(after.executors.is_none());
        }
        if let Ok(placement) = placed {
            // Taken back, everything is as it was; then it is placed for good.
            engine.undo(placement);
            for (agent, before) in agents.iter().zip(&before) {
                assert_eq!(engine.supply(&agent.name), Some(before));
            }
            engine.place(wanted).expect("it fits as before");
        }
    }
}

proptest! {
    #[test]
    fn a_plan_never_exceeds_the_offers(
        sizes in proptest::collection::vec((0..4000i64, 0..2048i64, 0..2000i64, any::<bool>()), 0..6),
        wants in proptest::collection::vec(
            (1..1500i64, 1..700i64, 0..3usize, proptest::option::weighted(0.2, 31_000..31_006u16), 0..3u8, 0..4usize),
            0..40,
        ),
        strategy in proptest::sample::select(Strategy::ALL.to_vec()),
    ) {
        let agents: Vec<Agent> = sizes
            .iter()
            .enumerate()
            .map(|(number, (cpu, memory, reserved, runs))| {
                let make = if *runs { agent } else { fresh };
                let mut agent = make(&format!("n{number}"), amounts(*cpu, *memory));
                let mut prod = share("prod", amounts(*reserved, *reserved));
                prod.ports = Ports::Only(km_placement::PortSet::new([(31_004, 31_005)]));
                agent.shares.push(prod);
                agent
            })
            .collect();
        let mut engine = engine(Policy { strategy, ..Policy::default() }, agents.clone());
        let pods: Vec<PendingPod> = wants
            .iter()
            .enumerate()
            .map(|(number, (cpu, memory, any, port, owner, roles))| {
                pod(&mut engine, &format!("p{number}"), amounts(*cpu, *memory), |need| {
                    let named = |port: u16| HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port };
                    need.ports.any = *any;
                    need.ports.named = port.map(named).into_iter().collect();
                    need.owner = (*owner > 0).then(|| owner.to_string());
                    let lists: [&[&str]; 4] = [&["*"], &["prod"], &["prod", "*"], &["*", "prod"]];
                    need.roles = lists[*roles].iter().map(|role| (*role).to_owned()).collect();
                })
            })
            .collect();
        place(&mut engine, &pods, &agents);
    }
}
