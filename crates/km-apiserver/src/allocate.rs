//! Cluster IPs and node ports: what is taken and what is still free.

use std::{collections::HashSet, fmt, net::Ipv4Addr};

/// From this address of a range on, addresses are given out; those before it are for whoever asks for one by name
/// (KEP-3070: static addresses at the lower end, dynamic ones above).
const STATIC: u32 = 256;

/// A range of IPv4 addresses and those of it that are taken. The network and broadcast address never are free.
#[derive(Clone, Debug)]
pub struct Addresses {
    base: u32,
    bits: u32,
    taken: HashSet<u32>,
}

impl Addresses {
    /// Reads `10.96.0.0/16`.
    pub fn parse(range: &str) -> Result<Self, String> {
        let wrong = || format!("--service-cluster-ip-range: {range:?} is no IPv4 range such as 10.96.0.0/16");
        let (base, prefix) = range.split_once('/').ok_or_else(wrong)?;
        let base: Ipv4Addr = base.parse().map_err(|_| wrong())?;
        let prefix: u32 = prefix.parse().map_err(|_| wrong())?;
        if !(8..=30).contains(&prefix) {
            return Err(format!("--service-cluster-ip-range: prefix length {prefix}: must be between 8 and 30"));
        }
        let bits = 32 - prefix;
        Ok(Self { base: u32::from(base) >> bits << bits, bits, taken: HashSet::new() })
    }

    /// The address of service default/kubernetes.
    pub fn first(&self) -> String {
        Ipv4Addr::from(self.base + 1).to_string()
    }

    /// Marks an address as taken; what is no address of the range (`None`, empty) changes nothing.
    pub fn take(&mut self, address: &str) {
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            self.taken.insert(u32::from(address));
        }
    }

    /// Whether this address may be taken.
    pub fn check(&self, address: &str) -> Result<(), String> {
        let address: Ipv4Addr = address.parse().map_err(|_| "must be a valid IPv4 address".to_owned())?;
        let number = u32::from(address);
        if number <= self.base || number >= self.base + self.size() - 1 {
            return Err(format!("the provided IP is not in the valid range {self}"));
        }
        if self.taken.contains(&number) { Err("provided IP is already allocated".to_owned()) } else { Ok(()) }
    }

    /// A free address.
    pub fn any(&self) -> Option<String> {
        let last = self.size() - 1;
        let lowest = if last > 2 * STATIC { STATIC } else { 2 };
        let start = rand::random_range(lowest..last);
        let found = (start..last).chain(2..start).find(|offset| !self.taken.contains(&(self.base + offset)))?;
        Some(Ipv4Addr::from(self.base + found).to_string())
    }

    fn size(&self) -> u32 {
        1 << self.bits
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), 32 - self.bits)
    }
}

/// A range of ports and those of it that are taken, per protocol.
#[derive(Clone, Debug)]
pub struct Ports {
    first: u16,
    last: u16,
    taken: HashSet<(u16, String)>,
}

impl Ports {
    /// Reads `30000-32767`.
    pub fn parse(range: &str) -> Result<Self, String> {
        let wrong = || format!("--service-node-port-range: {range:?} is no range such as 30000-32767");
        let (first, last) = range.split_once('-').ok_or_else(wrong)?;
        let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first == 0 || first > last { Err(wrong()) } else { Ok(Self { first, last, taken: HashSet::new() }) }
    }

    /// Marks a port as taken.
    pub fn take(&mut self, port: Option<u64>, protocol: &str) {
        if let Some(port) = port.and_then(|port| u16::try_from(port).ok()) {
            self.taken.insert((port, protocol.to_owned()));
        }
    }

    /// Whether this port may be taken.
    pub fn check(&self, port: u64, protocol: &str) -> Result<(), String> {
        let Some(port) = u16::try_from(port).ok().filter(|port| (self.first..=self.last).contains(port)) else {
            return Err(format!("provided port is not in the valid range. The range of valid ports is {self}"));
        };
        let taken = self.taken.contains(&(port, protocol.to_owned()));
        if taken { Err("provided port is already allocated".to_owned()) } else { Ok(()) }
    }

    /// A free port.
    pub fn any(&self, protocol: &str) -> Option<u16> {
        let start = rand::random_range(self.first..=self.last);
        let free = |port: &u16| !self.taken.contains(&(*port, protocol.to_owned()));
        (start..=self.last).chain(self.first..start).find(free)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_range_is_used_up_without_duplicates() {
        let mut addresses = Addresses::parse("10.0.0.7/29").unwrap();
        assert_eq!(addresses.first(), "10.0.0.1");
        let mut seen = HashSet::new();
        while let Some(address) = addresses.any() {
            assert!(addresses.check(&address).is_ok());
            addresses.take(&address);
            assert!(addresses.check(&address).is_err());
            assert!(seen.insert(address));
        }
        assert_eq!(seen.len(), 5, "8 less network, broadcast and the API server's");
    }

    #[test]
    fn only_addresses_of_the_range_may_be_asked_for() {
        let addresses = Addresses::parse("10.96.0.0/16").unwrap();
        for (address, good) in [("10.96.0.10", true), ("10.97.0.1", false), ("10.96.255.255", false), ("x", false)] {
            assert_eq!(addresses.check(address).is_ok(), good, "{address}");
        }
        assert!(Addresses::parse("10.96.0.0").is_err());
        assert!(Addresses::parse("fd00::/64").is_err());
    }

    #[test]
    fn a_port_is_taken_per_protocol() {
        let mut ports = Ports::parse("30000-30000").unwrap();
        assert_eq!(ports.any("TCP"), Some(30000));
        ports.take(Some(30000), "TCP");
        assert_eq!(ports.any("TCP"), None);
        assert_eq!(ports.any("UDP"), Some(30000));
        assert!(ports.check(29999, "UDP").is_err());
    }
}
