//! What an agent has, and what is free of it.

use km_mesos_proto::v1::{self, Resource};
use km_podtask::thousandths;

use super::Agent;

fn scalar(name: &str, thousandths: i64) -> Resource {
    Resource {
        name: name.to_owned(),
        r#type: v1::value::Type::Scalar as i32,
        scalar: Some(v1::value::Scalar { value: thousandths as f64 / 1000.0 }),
        allocation_info: Some(v1::resource::AllocationInfo { role: Some("*".to_owned()) }),
        ..Resource::default()
    }
}

pub fn sum(resources: &[Resource], name: &str) -> i64 {
    let named = resources.iter().filter(|one| one.name == name);
    named.map(|one| one.scalar.as_ref().map_or(0, |scalar| thousandths(scalar.value))).sum()
}

pub fn ports(resources: &[Resource]) -> Vec<u64> {
    let ranges = resources.iter().filter(|one| one.name == "ports").flat_map(|one| one.ranges.iter());
    ranges.flat_map(|ranges| &ranges.range).flat_map(|range| range.begin..=range.end).collect()
}

pub fn all_of(agent: &Agent) -> Vec<Resource> {
    let range = v1::value::Ranges { range: vec![v1::value::Range { begin: 31_000, end: 31_009 }] };
    let ports = Resource { name: "ports".to_owned(), ranges: Some(range), scalar: None, ..scalar("ports", 0) };
    let mut all = vec![scalar("cpus", agent.size.0), scalar("mem", agent.size.1), ports];
    all.extend(agent.extra.iter().map(|(name, amount)| scalar(name, *amount)));
    all
}

/// What no task or executor of the agent uses.
pub fn free(agent: &Agent) -> Vec<Resource> {
    let mut used: Vec<Resource> = agent.executor.iter().flat_map(|one| one.resources.clone()).collect();
    used.extend(agent.tasks.values().filter(|task| task.alive()).flat_map(|task| task.info.resources.clone()));
    let taken = ports(&used);
    let left = (31_000..=31_009).filter(|port| !taken.contains(port));
    let range = left.map(|port| v1::value::Range { begin: port, end: port }).collect();
    let free_ports = Resource {
        name: "ports".to_owned(),
        ranges: Some(v1::value::Ranges { range }),
        scalar: None,
        ..scalar("ports", 0)
    };
    let left = |name: &str, of: i64| {
        let left = of - sum(&used, name);
        assert!(left >= 0, "invariant 2: more {name} is in use than {} has", agent.hostname);
        scalar(name, left)
    };
    let mut all = vec![left("cpus", agent.size.0), left("mem", agent.size.1), free_ports];
    all.extend(
        agent
            .extra
            .iter()
            .map(|(name, of)| left(name, *of))
            .filter(|one| sum(std::slice::from_ref(one), &one.name) > 0),
    );
    all
}
