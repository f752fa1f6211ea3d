//! Hash maps that behave the same in every run. They are only looked into, never walked through.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, DefaultHasher},
};

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
