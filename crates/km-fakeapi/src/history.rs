//! What watchers read: all changes in order, as far as they are kept.

use std::{collections::VecDeque, sync::Arc};

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use km_podtask::PodKey;

/// So many changes are kept at least.
const KEPT: usize = 20_000;

/// A change of an object, with the resource version of its write.
#[derive(Clone, Debug)]
pub struct Change {
    pub version: u64,
    pub what: What,
}

/// What changed. A deletion shows the object as it was last.
#[derive(Clone, Debug)]
pub enum What {
    PodApplied(Arc<Pod>),
    PodDeleted(Arc<Pod>),
    NodeApplied(Arc<Node>),
    NodeDeleted(String),
    /// A claim, named as pods are; none when it is gone.
    Claim(PodKey, Option<Arc<PersistentVolumeClaim>>),
    /// None when it is gone.
    Volume(String, Option<Arc<PersistentVolume>>),
}

impl Change {
    /// The pod that changed, and whether it is still there.
    pub fn pod(&self) -> Option<(&Arc<Pod>, bool)> {
        match &self.what {
            What::PodApplied(pod) => Some((pod, true)),
            What::PodDeleted(pod) => Some((pod, false)),
            _ => None,
        }
    }
}

/// The changes after that version are not all known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted;

/// The changes, the oldest first.
#[derive(Default)]
pub(super) struct History {
    version: u64,
    /// All changes after this version are kept.
    complete_after: u64,
    changes: VecDeque<Change>,
}

impl History {
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A write: the version that it makes.
    pub fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub fn push(&mut self, version: u64, what: What) {
        self.changes.push_back(Change { version, what });
        if self.changes.len() > 2 * KEPT {
            let old = self.changes.drain(..KEPT).next_back();
            self.complete_after = old.map_or(self.complete_after, |change| change.version);
        }
    }

    pub fn after(&self, version: u64) -> Result<Option<&Change>, Compacted> {
        if version < self.complete_after {
            return Err(Compacted);
        }
        let next = self.changes.partition_point(|change| change.version <= version);
        Ok(self.changes.get(next))
    }

    pub fn compact(&mut self) {
        self.changes.clear();
        self.complete_after = self.version;
    }
}
