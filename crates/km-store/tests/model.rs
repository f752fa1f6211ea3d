//! The store beside a map that does the same, over random writes, restarts and watches.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod common;

use std::collections::BTreeMap;

use common::{open, put};
use km_store::{Change, EventKind, Expect, Key, Query, Store, StoreError, Stored, Write};
use proptest::prelude::*;
use serde_json::json;

#[derive(Clone, Debug)]
enum Step {
    Put { key: usize, expect: Want },
    Delete { key: usize, expect: Want },
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Want {
    Absent,
    Current,
    Stale,
    Anything,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let want = prop_oneof![Just(Want::Absent), Just(Want::Current), Just(Want::Stale), Just(Want::Anything)];
    let step = prop_oneof![
        8 => (0..4usize, want.clone()).prop_map(|(key, expect)| Step::Put { key, expect }),
        3 => (0..4usize, want).prop_map(|(key, expect)| Step::Delete { key, expect }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

fn key(number: usize) -> Key {
    Key::new("pods", ["a", "b"][number % 2], format!("p{number}"))
}

fn list(store: &dyn Store, at: Option<u64>) -> Result<BTreeMap<Key, u64>, StoreError> {
    let query = Query { resource: "pods", namespace: None, at, after: None, limit: 0, matches: &|_: &Stored| true };
    store.list(&query).map(|page| page.items.iter().map(|item| (item.key.clone(), item.revision)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn behaves_like_a_map(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut store = open(directory.path());
        let mut model: BTreeMap<Key, u64> = BTreeMap::new();
        let mut history: BTreeMap<u64, BTreeMap<Key, u64>> = BTreeMap::from([(1, model.clone())]);
        let mut revision = 1;
        let mut opened_at = 1;
        for step in steps {
            let (number, want, delete) = match step {
                Step::Reopen => {
                    drop(store);
                    store = open(directory.path());
                    opened_at = revision;
                    prop_assert_eq!(list(&store, None).unwrap(), model.clone());
                    continue;
                }
                Step::Put { key, expect } => (key, expect, false),
                Step::Delete { key, expect } => (key, expect, true),
            };
            let key = key(number);
            let current = model.get(&key).copied();
            let expect = match want {
                Want::Absent => Expect::Absent,
                Want::Current => Expect::Revision(current.unwrap_or(1)),
                Want::Stale => Expect::Revision(revision + 7),
                Want::Anything => Expect::Anything,
            };
            let change = if delete { Change::Delete } else { Change::Put(json!({"metadata": {"name": key.name}})) };
            let result = runtime.block_on(store.write(Write { key: key.clone(), expect, change }));
            let allowed = match (expect, current) {
                (Expect::Absent, Some(_)) => Err(StoreError::AlreadyExists),
                (Expect::Revision(_), None) => Err(StoreError::NotFound),
                (Expect::Revision(expected), Some(current)) if expected != current => {
                    Err(StoreError::Conflict { expected, current })
                }
                (_, None) if delete => Err(StoreError::NotFound),
                _ => Ok(()),
            };
            match allowed {
                Err(error) => prop_assert_eq!(result.unwrap_err(), error),
                Ok(()) => {
                    revision += 1;
                    let stored = result.unwrap();
                    prop_assert_eq!(stored.revision, revision);
                    prop_assert_eq!(&stored.value()["metadata"]["resourceVersion"], &json!(revision.to_string()));
                    if delete { model.remove(&key); } else { model.insert(key, revision); }
                    history.insert(revision, model.clone());
                }
            }
            prop_assert_eq!(store.revision(), revision);
        }
        for (at, expected) in &history {
            let found = list(&store, Some(*at));
            if *at >= opened_at {
                prop_assert_eq!(&found.unwrap(), expected);
            } else {
                prop_assert!(matches!(found, Err(StoreError::Compacted { .. })), "{}: {:?}", at, found);
            }
        }
    }

    #[test]
    fn a_watch_from_any_revision_leads_from_then_to_now(writes in prop::collection::vec((0..3usize, any::<bool>()), 1..60), start in 0..60usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        runtime.block_on(async {
            for (number, delete) in &writes {
                let change = if *delete { Change::Delete } else { Change::Put(json!({})) };
                let _may_be_missing = store.write(Write { key: key(*number), expect: Expect::Anything, change }).await;
            }
        });
        let now = store.revision();
        let start = 1 + start as u64 % now;
        let mut state = list(&store, Some(start)).unwrap();
        let mut watcher = store.watch("pods", None, start).unwrap();
        let mut last = start;
        while last < now {
            for event in runtime.block_on(watcher.next()).unwrap() {
                prop_assert_eq!(event.revision(), last + 1, "in order, each once");
                last = event.revision();
                let key = event.object.key.clone();
                match event.kind {
                    EventKind::Added => prop_assert_eq!(state.insert(key, last), None),
                    EventKind::Modified => prop_assert!(state.insert(key, last).is_some()),
                    EventKind::Deleted => prop_assert!(state.remove(&key).is_some()),
                }
            }
        }
        prop_assert_eq!(state, list(&store, None).unwrap());
    }
}

#[tokio::test]
async fn watchers_of_concurrent_writers_see_each_change_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(open(directory.path()));
    let mut watchers: Vec<_> = (0..3).map(|_| store.watch("pods", None, 1).unwrap()).collect();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0..25 {
                    put(&*store, &format!("w{writer}-{number}")).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    for watcher in &mut watchers {
        let mut revisions = Vec::new();
        while revisions.len() < 200 {
            revisions.extend(watcher.next().await.unwrap().iter().map(|event| event.revision()));
        }
        assert_eq!(revisions, (2..202).collect::<Vec<u64>>());
        assert_eq!(watcher.progress(), 201);
    }
}

#[tokio::test]
async fn what_is_forgotten_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = common::options(directory.path());
    options.window_events = 10;
    let store = km_store::RedbStore::open(options).unwrap();
    let mut slow = store.watch("pods", None, 1).unwrap();
    for number in 0..30 {
        put(&store, &format!("p{number}")).await;
    }
    assert_eq!(slow.next().await.unwrap_err(), StoreError::Compacted { requested: 1, oldest: 21 });
    assert!(store.watch("pods", None, 21).is_ok());
    assert!(matches!(store.watch("pods", None, 20).err(), Some(StoreError::Compacted { .. })));
    assert!(matches!(store.watch("pods", None, 99).err(), Some(StoreError::Future { .. })));
    // Another resource has a window of its own.
    assert!(store.watch("nodes", None, 1).is_ok());
}

#[tokio::test]
async fn pages_follow_each_other_at_one_revision() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for number in 0..10 {
        put(&store, &format!("p{number}")).await;
    }
    let mut after = None;
    let mut at = None;
    let mut names = Vec::new();
    loop {
        let query = Query { resource: "pods", namespace: None, at, after, limit: 3, matches: &|_: &Stored| true };
        let page = store.list(&query).unwrap();
        // What happens meanwhile is not in the later pages.
        put(&store, &format!("p5{}", names.len())).await;
        names.extend(page.items.iter().map(|item| item.key.name.clone()));
        at = Some(page.revision);
        let last = page.items.last().unwrap();
        after = Some((last.key.namespace.clone(), last.key.name.clone()));
        assert_eq!(page.remaining, 10 - names.len());
        if page.remaining == 0 {
            break;
        }
    }
    let expected: Vec<String> = (0..10).map(|number| format!("p{number}")).collect();
    assert_eq!(names, expected);
}
