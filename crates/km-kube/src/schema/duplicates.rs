//! Fields that a JSON text gives twice. A parsed `Value` has lost that, so the text itself is read.

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// `duplicate field "spec.replicas"` for each field given twice in one object; nothing for a text that is no JSON
/// (reading it properly says why).
#[must_use]
pub fn duplicate_fields(json: &[u8]) -> Vec<String> {
    let found = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    match (Walk { place: None, found: &found }).deserialize(&mut deserializer) {
        Ok(()) => found.into_inner(),
        Err(_) => Vec::new(),
    }
}

/// A place in the text. Every request comes here, and next to none has a duplicate: its path is only written for one.
struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(out, "{parent}")?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_none() => out.write_str(name),
            Step::Field(name) => write!(out, ".{name}"),
            Step::Item(index) => write!(out, "[{index}]"),
        }
    }
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    place: Option<&'a Place<'a>>,
    found: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// A field's name, out of the text itself where no escapes are in it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a field's name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<Name<'de>>()? {
            let place = Place { parent: self.place, step: Step::Field(&name.0) };
            if seen.contains(&name) {
                self.found.borrow_mut().push(format!("duplicate field \"{place}\""));
            }
            map.next_value_seed(Walk { place: Some(&place), found: self.found })?;
            seen.insert(name);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let place = Place { parent: self.place, step: Step::Item(index) };
            if items.next_element_seed(Walk { place: Some(&place), found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| ())
    }
}
