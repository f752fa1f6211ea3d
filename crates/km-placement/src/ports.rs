//! Sets of free ports.

use std::fmt;

/// Free host ports of a share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// Every port, as Kubernetes sees hosts.
    #[default]
    Any,
    /// Only these, as Mesos offers them.
    Only(PortSet),
}

/// Disjoint ascending ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSet {
    ranges: Vec<(u16, u16)>,
}

impl PortSet {
    /// The union of inclusive ranges.
    pub fn new(ranges: impl IntoIterator<Item = (u16, u16)>) -> Self {
        let mut sorted: Vec<(u16, u16)> = ranges.into_iter().filter(|(begin, end)| begin <= end).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::with_capacity(sorted.len());
        for (begin, end) in sorted {
            match merged.last_mut() {
                Some(last) if u32::from(begin) <= u32::from(last.1) + 1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        Self { ranges: merged }
    }

    pub fn contains(&self, port: u16) -> bool {
        self.ranges.iter().any(|(begin, end)| (*begin..=*end).contains(&port))
    }

    pub fn len(&self) -> usize {
        self.ranges.iter().map(|(begin, end)| usize::from(end - begin) + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Takes one port out; says whether it was in.
    pub fn take(&mut self, port: u16) -> bool {
        let Some(at) = self.ranges.iter().position(|(begin, end)| (*begin..=*end).contains(&port)) else {
            return false;
        };
        let (begin, end) = self.ranges[at];
        let rest = [(begin < port).then(|| (begin, port - 1)), (port < end).then(|| (port + 1, end))];
        self.ranges.splice(at..=at, rest.into_iter().flatten());
        true
    }

    /// Takes out the lowest port, if there is any.
    pub fn take_lowest(&mut self) -> Option<u16> {
        let (lowest, _) = self.ranges.first().copied()?;
        self.take(lowest);
        Some(lowest)
    }

    /// Puts a port in.
    pub fn put(&mut self, port: u16) {
        *self = Self::new(self.ranges.iter().copied().chain([(port, port)]));
    }

    /// Adds the ports of another set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self::new(self.ranges.iter().chain(&other.ranges).copied())
    }

    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.ranges
    }
}

impl fmt::Display for PortSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |(begin, end): &(u16, u16)| {
            if begin == end { begin.to_string() } else { format!("{begin}-{end}") }
        };
        out.write_str(&self.ranges.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}
