//! Amounts by name, without roles and other metadata: what quota counts.

use std::{collections::BTreeMap, fmt};

use super::{ParsedValue, Resource, ResourceError, Resources, Scalar};

/// Amounts by name. What isn't named is zero, and zeros aren't kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantities(BTreeMap<String, Scalar>);

/// Upper limits by name. What isn't named is unlimited; a zero is a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<String, Scalar>);

impl Quantities {
    /// Reads `name:number;…`; repeated names are summed.
    ///
    /// # Errors
    /// Says which item is malformed.
    pub fn parse(text: &str) -> Result<Self, ResourceError> {
        let mut quantities = Self::default();
        for item in parse_items(text) {
            let (name, amount) = item?;
            quantities.add(name, amount);
        }
        Ok(quantities)
    }

    /// The amounts of resources: of ranges and sets the number of items; copies of shared ones count once.
    pub fn of(resources: &Resources) -> Self {
        let mut quantities = Self::default();
        for resource in resources.iter() {
            quantities.add(&resource.name, resource.value.quantity());
        }
        quantities
    }

    /// The amount of a name.
    pub fn get(&self, name: &str) -> Scalar {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Scalar)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds an amount of one name; nothing happens if it isn't positive.
    pub fn add(&mut self, name: &str, amount: Scalar) {
        if amount > Scalar::ZERO {
            *self.0.entry(name.to_owned()).or_default() += amount;
        }
    }

    /// Adds all.
    pub fn add_all(&mut self, other: &Self) {
        other.iter().for_each(|(name, amount)| self.add(name, amount));
    }

    /// Takes all away, as far as there is enough.
    pub fn subtract_all(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if let Some(rest) = self.0.get_mut(name) {
                *rest = rest.saturating_sub(amount);
            }
        }
        self.0.retain(|_, amount| !amount.is_zero());
    }

    /// Is there as much of everything as in `other`?
    pub fn contains(&self, other: &Self) -> bool {
        other.iter().all(|(name, amount)| self.get(name) >= amount)
    }

    /// Nothing at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Quantities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_items(&self.0, f)
    }
}

impl Limits {
    /// Reads `name:number;…`.
    ///
    /// # Errors
    /// Says which item is malformed or repeated.
    pub fn parse(text: &str) -> Result<Self, ResourceError> {
        let mut limits = Self::default();
        for item in parse_items(text) {
            let (name, amount) = item?;
            if limits.0.insert(name.to_owned(), amount).is_some() {
                return Err(ResourceError::new(format!("'{name}' has more than one limit")));
            }
        }
        Ok(limits)
    }

    /// Sets the limit of a name.
    pub fn set(&mut self, name: &str, limit: Scalar) {
        self.0.insert(name.to_owned(), limit.max(Scalar::ZERO));
    }

    /// The limit of a name; `None` is unlimited.
    pub fn get(&self, name: &str) -> Option<Scalar> {
        self.0.get(name).copied()
    }

    /// Names and limits, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Scalar)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Does `other` limit at least as much everywhere?
    pub fn contains(&self, other: &Self) -> bool {
        self.0.iter().all(|(name, limit)| other.get(name).is_some_and(|inner| inner <= *limit))
    }

    /// Do the amounts stay within the limits?
    pub fn allow(&self, quantities: &Quantities) -> bool {
        self.0.iter().all(|(name, limit)| quantities.get(name) <= *limit)
    }

    /// Lowers limits by amounts, not below zero.
    pub fn subtract(&mut self, quantities: &Quantities) {
        for (name, limit) in &mut self.0 {
            *limit = limit.saturating_sub(quantities.get(name));
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_items(&self.0, f)
    }
}

impl Resources {
    /// Is there as much of everything as `quantities` say, over all roles?
    pub fn contains_quantities(&self, quantities: &Quantities) -> bool {
        Quantities::of(self).contains(quantities)
    }

    /// At most that much of each name, nothing of what isn't named. What can't be divided and is too much goes whole.
    #[must_use]
    pub fn shrink_to_quantities(&self, quantities: &Quantities) -> Self {
        let mut left = Limits(self.names().into_iter().map(|name| (name.to_owned(), quantities.get(name))).collect());
        self.shrink(&mut left)
    }

    /// At most that much of each name, all of what isn't named.
    #[must_use]
    pub fn shrink_to_limits(&self, limits: &Limits) -> Self {
        self.shrink(&mut limits.clone())
    }

    fn shrink(&self, left: &mut Limits) -> Self {
        let mut kept = Self::new();
        for entry in &self.entries {
            let whole = &entry.resource;
            let Some(limit) = left.get(&whole.name) else {
                kept.add_entry(entry.clone());
                continue;
            };
            let part = Resource { value: whole.value.shrink(limit), ..whole.clone() };
            if !part.is_empty() && whole.contains(&part) {
                left.set(&whole.name, limit - part.value.quantity());
                kept.add_entry(super::Entry { resource: part, copies: entry.copies });
            }
        }
        kept
    }
}

fn parse_items(text: &str) -> impl Iterator<Item = Result<(&str, Scalar), ResourceError>> {
    text.split(';').filter(|item| !item.trim().is_empty()).map(parse_item)
}

fn parse_item(item: &str) -> Result<(&str, Scalar), ResourceError> {
    let bad = |reason: &str| ResourceError::new(format!("'{}' {reason}", item.trim()));
    let (name, value) = item.split_once(':').ok_or_else(|| bad("must have the form 'name:number'"))?;
    let name = name.trim();
    if name.is_empty() || value.contains(':') {
        return Err(bad("must have the form 'name:number'"));
    }
    match ParsedValue::parse(value).map_err(|error| bad(&error.to_string()))? {
        ParsedValue::Scalar(number) if number >= 0.0 => Ok((name, Scalar::from_f64(number))),
        ParsedValue::Scalar(_) => Err(bad("must not be negative")),
        _ => Err(bad("must be a number")),
    }
}

fn print_items(items: &BTreeMap<String, Scalar>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if items.is_empty() {
        return f.write_str("{}");
    }
    let texts: Vec<String> = items.iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
    f.write_str(&texts.join("; "))
}
