//! What the store's tests share.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;

use km_store::{Change, Expect, Facets, Key, Options, RedbStore, Store, Write};
use serde_json::json;

pub fn options(directory: &Path) -> Options {
    Options::new(directory, |_, _| Facets::default())
}

pub fn open(directory: &Path) -> RedbStore {
    RedbStore::open(options(directory)).unwrap()
}

pub fn pod(name: &str) -> Write {
    let change = Change::Put(json!({ "metadata": { "name": name } }));
    Write { key: Key::new("pods", "a", name), expect: Expect::Anything, change }
}

pub async fn put(store: &dyn Store, name: &str) {
    store.write(pod(name)).await.unwrap();
}
