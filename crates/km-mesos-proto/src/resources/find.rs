//! Finding an amount wherever it is reserved.

use super::{Resource, Resources};

impl Resources {
    /// Takes from this what has the amounts of `targets`, whatever it is reserved for: first from the target's own
    /// role, then from what is free, then from other roles. `None` if there isn't enough.
    pub fn find(&self, targets: &Self) -> Option<Self> {
        let mut available = self.clone();
        let mut found = Self::new();
        for target in targets.iter() {
            let part = available.find_one(target)?;
            available -= &part;
            found += part;
        }
        Some(found)
    }

    fn find_one(&self, target: &Resource) -> Option<Self> {
        let role = target.role();
        let preferences: [&dyn Fn(&Resource) -> bool; 3] = [
            &|resource| resource.is_reserved() && resource.role() == role,
            &|resource| !resource.is_reserved(),
            &|resource| resource.is_reserved() && resource.role() != role,
        ];
        let mut found = Self::new();
        let mut wanted = Self::from(target.clone()).to_unreserved();
        for preferred in preferences {
            for resource in self.iter().filter(|resource| preferred(resource)) {
                let plain = Self::from(resource.clone()).to_unreserved();
                if plain.contains(&wanted) {
                    for reservation in &resource.reservations {
                        wanted = wanted.push_reservation(reservation);
                    }
                    return Some(found + wanted);
                }
                if wanted.contains(&plain) {
                    found.insert(resource.clone());
                    wanted -= plain;
                }
            }
        }
        None
    }
}
