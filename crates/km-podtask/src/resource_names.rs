//! How Mesos and Kubernetes call the same resource, and what offers come to in Kubernetes' terms.

use std::collections::BTreeMap;

use km_kube::{
    keys, names,
    pod::{ResourceTotals, is_extended},
};
use km_mesos_proto::v1;
use thiserror::Error;

use crate::{
    fixed::memory_from_mesos,
    procurement::{is_plain, plenty},
};

/// What Mesos calls GPUs.
pub const GPUS: &str = "gpus";
/// Resources of Mesos that pods take otherwise than as extended resources.
const OWN: [&str; 4] = ["cpus", "mem", "disk", "ports"];

/// Names that differ between Mesos and Kubernetes, by pairs. Without a pair a Mesos resource with a domain
/// (`example.com/fpga`) is called alike, and one without (`bandwidth`) gets that of this project
/// (`k8s.mesosphere.io/bandwidth`), as Kubernetes wants a domain in the name of every extended resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceNames {
    kubernetes: BTreeMap<String, String>,
    mesos: BTreeMap<String, String>,
}

impl Default for ResourceNames {
    /// `gpus` is `nvidia.com/gpu`.
    fn default() -> Self {
        let pair = |from: &str, to: &str| BTreeMap::from([(from.to_owned(), to.to_owned())]);
        Self { kubernetes: pair(GPUS, "nvidia.com/gpu"), mesos: pair("nvidia.com/gpu", GPUS) }
    }
}

/// A pair of names that can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamesError {
    #[error("{0:?} is no pair like gpus=nvidia.com/gpu")]
    NoPair(String),
    #[error("{0} is a resource of Mesos that pods have under names of their own")]
    Own(String),
    #[error("{0:?} can't be an extended resource of Kubernetes, which is like example.com/name")]
    NotExtended(String),
    #[error("{0} is named twice")]
    Twice(String),
}

impl ResourceNames {
    /// Pairs `MESOS=KUBERNETES`, in the place of the default one. Empty texts are no pairs.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = &'a str>) -> Result<Self, NamesError> {
        let mut names = Self { kubernetes: BTreeMap::new(), mesos: BTreeMap::new() };
        for pair in pairs.into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
            let (mesos, kubernetes) = pair.split_once('=').ok_or_else(|| NamesError::NoPair(pair.to_owned()))?;
            let (mesos, kubernetes) = (mesos.trim(), kubernetes.trim());
            if mesos.is_empty() {
                return Err(NamesError::NoPair(pair.to_owned()));
            }
            if OWN.contains(&mesos) {
                return Err(NamesError::Own(mesos.to_owned()));
            }
            if !can_be_extended(kubernetes) {
                return Err(NamesError::NotExtended(kubernetes.to_owned()));
            }
            for (map, from, to) in [(&mut names.kubernetes, mesos, kubernetes), (&mut names.mesos, kubernetes, mesos)] {
                if map.insert(from.to_owned(), to.to_owned()).is_some() {
                    return Err(NamesError::Twice(from.to_owned()));
                }
            }
        }
        Ok(names)
    }

    /// What Kubernetes calls a resource of Mesos; none when pods can't ask for it by a name of its own.
    pub fn in_kubernetes(&self, mesos: &str) -> Option<String> {
        if let Some(name) = self.kubernetes.get(mesos) {
            return Some(name.clone());
        }
        let name = if mesos.contains('/') { mesos.to_owned() } else { format!("{}{mesos}", keys::PREFIX) };
        // Only what leads back to the same resource.
        let unambiguous = !OWN.contains(&mesos) && can_be_extended(&name) && self.in_mesos(&name) == mesos;
        unambiguous.then_some(name)
    }

    /// What Mesos calls an extended resource of Kubernetes.
    pub fn in_mesos<'a>(&'a self, kubernetes: &'a str) -> &'a str {
        match self.mesos.get(kubernetes) {
            Some(name) => name,
            None => kubernetes.strip_prefix(keys::PREFIX).unwrap_or(kubernetes),
        }
    }

    /// What Kubernetes calls GPUs.
    pub fn gpus(&self) -> String {
        self.in_kubernetes(GPUS).unwrap_or_else(|| format!("{}{GPUS}", keys::PREFIX))
    }

    /// Sums of what any task may use, in Kubernetes' units: `disk` counts as `ephemeral-storage`, of other resources
    /// whole units count, which are also the items of a set and the values of ranges.
    pub fn amounts(&self, resources: &[v1::Resource]) -> ResourceTotals {
        let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
        for resource in resources.iter().filter(|resource| is_plain(resource) && resource.name != "ports") {
            let sum = sums.entry(&resource.name).or_default();
            *sum = sum.saturating_add(plenty(resource));
        }
        let mut take = |name: &str| sums.remove(name).unwrap_or(0);
        let mut totals = ResourceTotals {
            milli_cpu: take("cpus"),
            memory_bytes: memory_from_mesos(take("mem")),
            other: BTreeMap::from([("ephemeral-storage".to_owned(), memory_from_mesos(take("disk")))]),
        };
        for (name, thousandths) in sums {
            if let Some(name) = self.in_kubernetes(name) {
                totals.other.insert(name, thousandths / 1000);
            }
        }
        totals.other.retain(|_, amount| *amount > 0);
        totals
    }
}

fn can_be_extended(name: &str) -> bool {
    is_extended(name) && names::qualified_name(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_one_name_on_each_side() {
        let names = ResourceNames::parse(["gpus=amd.com/gpu", "", " fpga = example.com/f "]).expect("they are lawful");
        let table = [
            ("gpus", Some("amd.com/gpu")),
            ("fpga", Some("example.com/f")),
            ("example.com/tpu", Some("example.com/tpu")),
            ("bandwidth", Some("k8s.mesosphere.io/bandwidth")),
            // Not those that pods have anyway, that can't be names, or that stand for another one.
            ("cpus", None),
            ("ports", None),
            ("kubernetes.io/batch", None),
            ("with space", None),
            ("amd.com/gpu", None),
            ("k8s.mesosphere.io/bandwidth", None),
        ];
        for (mesos, kubernetes) in table {
            assert_eq!(names.in_kubernetes(mesos).as_deref(), kubernetes, "{mesos}");
            if let Some(kubernetes) = kubernetes {
                assert_eq!(names.in_mesos(kubernetes), mesos);
            }
        }
        assert_eq!(ResourceNames::default(), ResourceNames::parse(["gpus=nvidia.com/gpu"]).expect("it is lawful"));
    }

    #[test]
    fn wrong_pairs_are_named() {
        let table: [(&[&str], &str); 6] = [
            (&["gpus"], "\"gpus\" is no pair"),
            (&["=a.b/c"], "is no pair"),
            (&["mem=a.b/c"], "mem is a resource of Mesos"),
            (&["gpus=gpu"], "\"gpu\" can't be an extended resource"),
            (&["gpus=a.b/c", "gpus=a.b/d"], "gpus is named twice"),
            (&["gpus=a.b/c", "fpgas=a.b/c"], "a.b/c is named twice"),
        ];
        for (pairs, expected) in table {
            let error = ResourceNames::parse(pairs.iter().copied()).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{pairs:?}: {error}");
        }
    }
}
