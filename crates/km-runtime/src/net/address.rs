//! IPv4 networks and the choice of free addresses. No IO.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use serde::{Deserialize, Serialize};

/// A network such as `10.88.3.0/24`; bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ipv4Net {
    pub address: Ipv4Addr,
    pub prefix: u8,
}

impl Ipv4Net {
    /// Bits of the address after the prefix are dropped; a prefix over 32 means 32.
    pub const fn new(address: Ipv4Addr, prefix: u8) -> Self {
        let prefix = if prefix > 32 { 32 } else { prefix };
        Self { address: Ipv4Addr::from_bits(address.to_bits() & mask(prefix)), prefix }
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix) == self.address.to_bits()
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// The n-th address; wraps at the end of the address space.
    pub fn nth(self, n: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits().wrapping_add(n))
    }

    /// Number of addresses.
    pub fn size(self) -> u64 {
        1 << (32 - self.prefix)
    }
}

const fn mask(prefix: u8) -> u32 {
    if prefix == 0 { 0 } else { u32::MAX << (32 - prefix) }
}

impl fmt::Display for Ipv4Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Ipv4Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not an IPv4 network such as 10.88.3.0/24");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let (address, prefix) = (address.parse().map_err(|_| wrong())?, prefix.parse().map_err(|_| wrong())?);
        if prefix > 32 { Err(wrong()) } else { Ok(Self::new(address, prefix)) }
    }
}

impl TryFrom<String> for Ipv4Net {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Ipv4Net> for String {
    fn from(net: Ipv4Net) -> Self {
        net.to_string()
    }
}

/// The first free address after `last`, going round; never the network's own, its gateway (the first) or its
/// broadcast address (the last).
pub fn lowest_free(net: Ipv4Net, last: Ipv4Addr, taken: &[Ipv4Addr]) -> Option<Ipv4Addr> {
    let end = u32::try_from(net.size() - 1).ok()?;
    if end < 3 {
        return None;
    }
    let usable = end - 2;
    let start = last.to_bits().wrapping_sub(net.address.to_bits()).wrapping_sub(1);
    let start = if start > usable { 0 } else { start };
    (0..usable).map(|step| net.nth(2 + (start + step) % usable)).find(|address| !taken.contains(address))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_written() {
        assert_eq!(net("10.88.3.7/24").to_string(), "10.88.3.0/24");
        assert_eq!(net("0.0.0.0/0").size(), 1 << 32);
        for wrong in ["", "10.88.3.0", "10.88.3.0/33", "10.88.3/24", "::1/64"] {
            assert!(wrong.parse::<Ipv4Net>().is_err(), "{wrong}");
        }
        assert!(net("10.88.0.0/13").overlaps(net("10.95.1.0/24")));
        assert!(!net("10.88.0.0/13").overlaps(net("10.96.0.0/16")));
    }

    #[test]
    fn addresses_go_round_and_end() {
        let small = net("10.0.0.0/29");
        let mut taken = Vec::new();
        let mut last = small.nth(1);
        while let Some(address) = lowest_free(small, last, &taken) {
            taken.push(address);
            last = address;
        }
        assert_eq!(taken, (2..7).map(|n| small.nth(n)).collect::<Vec<_>>());
        assert_eq!(lowest_free(small, small.nth(4), &[small.nth(5), small.nth(6)]), Some(small.nth(2)));
        assert_eq!(lowest_free(net("10.0.0.0/31"), small.nth(0), &[]), None);
    }

    proptest! {
        #[test]
        fn a_free_address_is_inside_and_not_taken(prefix in 24u8..31, last in any::<u32>(), taken in proptest::collection::vec(0u32..256, 0..60)) {
            let net = Ipv4Net::new(Ipv4Addr::new(10, 88, 3, 0), prefix);
            let taken: Vec<_> = taken.into_iter().map(|n| net.nth(n)).collect();
            match lowest_free(net, Ipv4Addr::from_bits(last), &taken) {
                Some(address) => {
                    prop_assert!(net.contains(address) && !taken.contains(&address));
                    prop_assert!(address != net.nth(0) && address != net.nth(1));
                }
                None => prop_assert!((2..u32::try_from(net.size()).unwrap() - 1).all(|n| taken.contains(&net.nth(n)))),
            }
        }
    }
}
