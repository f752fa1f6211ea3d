//! Procurement: which of the offered resources a task takes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use km_mesos_proto::v1;
use thiserror::Error;

use crate::{
    fixed::{memory_to_mesos, scalar, thousandths},
    ports::{PortEntry, PortError, PortStrategy, map_ports, offered_ports},
    roles,
};

/// What a task needs by the names of Mesos, in thousandths of the unit (`cpus`: cores, `mem` and `disk`: megabytes).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Want {
    pub amounts: BTreeMap<String, i64>,
}

impl Want {
    /// Milli-CPUs and bytes, the latter rounded up to what Mesos can count.
    pub fn new(milli_cpu: i64, memory_bytes: i64) -> Self {
        Self::with_disk(milli_cpu, memory_bytes, 0)
    }

    /// The same with bytes of disk.
    pub fn with_disk(milli_cpu: i64, memory_bytes: i64, disk_bytes: i64) -> Self {
        let amounts =
            [("cpus", milli_cpu), ("mem", memory_to_mesos(memory_bytes)), ("disk", memory_to_mesos(disk_bytes))];
        let amounts = amounts.into_iter().filter(|(_, amount)| *amount > 0);
        Self { amounts: amounts.map(|(name, amount)| (name.to_owned(), amount)).collect() }
    }

    /// Whole units of any other resource in addition.
    pub fn add_units(&mut self, name: &str, units: i64) {
        if units > 0 {
            let amount = self.amounts.entry(name.to_owned()).or_default();
            *amount = amount.saturating_add(units.saturating_mul(1000));
        }
    }
}

/// What a task got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Procured {
    /// Ready for `TaskInfo.resources`: copies of the offered resources with less in them.
    pub resources: Vec<v1::Resource>,
    pub ports: Vec<PortEntry>,
}

/// Why an offer doesn't do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProcurementError {
    #[error("not enough {0} offered")]
    Insufficient(String),
    #[error(transparent)]
    Ports(#[from] PortError),
}

/// Takes what a pod needs out of `offered`, or leaves `offered` as it was.
pub fn procure(
    offered: &mut Vec<v1::Resource>,
    want: &Want,
    spec: &PodSpec,
    allowed: &[String],
    strategy: PortStrategy,
) -> Result<Procured, ProcurementError> {
    let mut left = offered.clone();
    let mut resources = Vec::new();
    for (name, amount) in &want.amounts {
        let taken = take_or_spoil(&mut left, name, *amount, allowed);
        resources.extend(taken.ok_or_else(|| ProcurementError::Insufficient(name.clone()))?);
    }
    let ports = map_ports(spec, &offered_ports(&left), allowed, strategy)?;
    resources.extend(take_ports(&mut left, &ports));
    *offered = left;
    Ok(Procured { resources, ports })
}

/// Takes `want` thousandths of the resource `name`, roles in the order of `allowed` and offers in theirs, from several
/// resources where one is not enough. Of sets and ranges whole items are taken, the first ones. Takes nothing when all of
/// them together are not enough.
pub fn take(offered: &mut Vec<v1::Resource>, name: &str, want: i64, allowed: &[String]) -> Option<Vec<v1::Resource>> {
    let mut left = offered.clone();
    let taken = take_or_spoil(&mut left, name, want, allowed)?;
    *offered = left;
    Some(taken)
}

/// The same, but what it takes when all of them are not enough is lost.
fn take_or_spoil(
    offered: &mut Vec<v1::Resource>,
    name: &str,
    want: i64,
    allowed: &[String],
) -> Option<Vec<v1::Resource>> {
    let mut taken = Vec::new();
    let mut open = want;
    for role in allowed {
        let mine = |one: &&mut v1::Resource| one.name == name && is_plain(one) && roles::of_resource(one) == role;
        for resource in offered.iter_mut().filter(mine) {
            if let Some(part) = split(resource, open) {
                open -= plenty(&part).min(open);
                taken.push(part);
            }
        }
    }
    if open > 0 {
        return None;
    }
    offered.retain(|resource| resource.name != name || !is_plain(resource) || plenty(resource) > 0);
    Some(taken)
}

/// How much there is of a resource, in thousandths of its unit; an item of a set or a value of ranges is a unit.
pub(crate) fn plenty(resource: &v1::Resource) -> i64 {
    if let Some(scalar) = &resource.scalar {
        return thousandths(scalar.value).max(0);
    }
    let items = resource.set.as_ref().map_or(0, |set| set.item.len());
    let values = resource.ranges.iter().flat_map(|ranges| &ranges.range);
    let values: u64 = values.fold(0, |sum, range| sum.saturating_add(length(range)));
    i64::try_from(values.saturating_add(items as u64)).unwrap_or(i64::MAX).saturating_mul(1000)
}

fn length(range: &v1::value::Range) -> u64 {
    range.end.checked_sub(range.begin).map_or(0, |more| more.saturating_add(1))
}

/// Takes up to `want` thousandths out of one resource.
fn split(resource: &mut v1::Resource, want: i64) -> Option<v1::Resource> {
    let have = plenty(resource);
    let part = want.min(have);
    if part <= 0 {
        return None;
    }
    let mut taken = resource.clone();
    let units = usize::try_from(part.saturating_add(999) / 1000).unwrap_or(usize::MAX);
    if resource.scalar.is_some() {
        resource.scalar = Some(scalar(have - part));
        taken.scalar = Some(scalar(part));
    } else if let (Some(from), Some(to)) = (&mut resource.set, &mut taken.set) {
        to.item = from.item.drain(..units.min(from.item.len())).collect();
    } else if let (Some(from), Some(to)) = (&mut resource.ranges, &mut taken.ranges) {
        to.range = split_ranges(&mut from.range, units as u64);
    }
    Some(taken)
}

/// Takes so many of the first values.
fn split_ranges(from: &mut Vec<v1::value::Range>, mut units: u64) -> Vec<v1::value::Range> {
    let mut taken = Vec::new();
    from.retain_mut(|range| {
        let part = units.min(length(range));
        units -= part;
        if part > 0 {
            taken.push(v1::value::Range { begin: range.begin, end: range.begin + (part - 1) });
        }
        let rest = length(range) > part;
        if rest {
            range.begin += part;
        }
        rest
    });
    taken
}

/// Whether any task may simply use it: no persistent volume, not shared, not revocable.
pub(crate) fn is_plain(resource: &v1::Resource) -> bool {
    let volume = resource.disk.as_ref().is_some_and(|disk| disk.persistence.is_some() || disk.source.is_some());
    !volume && resource.shared.is_none() && resource.revocable.is_none()
}

/// Takes the mapped ports out of the offered ranges. A port that two protocols share is taken once.
fn take_ports(offered: &mut Vec<v1::Resource>, entries: &[PortEntry]) -> Vec<v1::Resource> {
    let mut taken: Vec<v1::Resource> = Vec::new();
    for resource in offered.iter_mut().filter(|resource| resource.name == "ports") {
        let role = roles::of_resource(resource).to_owned();
        let Some(ranges) = &mut resource.ranges else { continue };
        let mut mine: Vec<u64> = entries
            .iter()
            .filter(|entry| entry.role == role)
            .map(|entry| u64::from(entry.host_port))
            .filter(|port| ranges.range.iter().any(|range| (range.begin..=range.end).contains(port)))
            .collect();
        mine.sort_unstable();
        mine.dedup();
        if mine.is_empty() {
            continue;
        }
        for port in &mine {
            ranges.range = ranges.range.iter().flat_map(|range| without_port(*range, *port)).collect();
        }
        taken.push(v1::Resource { ranges: Some(new_ranges(&mine)), ..resource.clone() });
    }
    offered.retain(|resource| resource.ranges.as_ref().is_none_or(|ranges| !ranges.range.is_empty()));
    taken
}

/// One range for each port, in the given order, repeated ones included.
pub fn new_ranges(ports: &[u64]) -> v1::value::Ranges {
    let range = ports.iter().map(|port| v1::value::Range { begin: *port, end: *port }).collect();
    v1::value::Ranges { range }
}

/// A range without one port.
pub fn without_port(range: v1::value::Range, port: u64) -> Vec<v1::value::Range> {
    if !(range.begin..=range.end).contains(&port) {
        return vec![range];
    }
    let below = (range.begin < port).then(|| v1::value::Range { begin: range.begin, end: port - 1 });
    let above = (port < range.end).then(|| v1::value::Range { begin: port + 1, end: range.end });
    below.into_iter().chain(above).collect()
}
