//! Killed processes, damaged files, full disks, and two processes on one directory.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod common;

use std::{
    io::{BufRead, BufReader, Error, ErrorKind},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use common::{open, options, pod, put};
use km_store::{Disk, Key, RedbStore, Store, StoreError};
use redb::{Database, DatabaseError, StorageBackend, backends::FileBackend};

const DIRECTORY: &str = "KM_STORE_TEST_DIRECTORY";

/// Runs in a process of its own when the test below starts it: writes until it is killed, telling each write that was
/// acknowledged.
#[tokio::test]
async fn writer_until_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(Path::new(&directory));
    for number in 0..100_000 {
        put(&store, &format!("p{number}")).await;
        println!("written p{number}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=3u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer_until_killed", "--exact", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut written = lines.filter_map(|line| Some(line.split_once("written ")?.1.to_owned()));
        let mut acknowledged: Vec<String> = written.by_ref().take(40 * round as usize).collect();
        // SIGKILL, in the middle of whatever it does.
        child.kill().unwrap();
        acknowledged.extend(written);
        child.wait().unwrap();
        let store = open(directory.path());
        for name in &acknowledged {
            assert!(store.get(&Key::new("pods", "a", name)).is_some(), "{name} was acknowledged");
        }
        assert!(store.revision() > acknowledged.len() as u64);
    }
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path());
    let error = RedbStore::open(options(directory.path())).err().unwrap();
    let expected = StoreError::InUse { directory: directory.path().to_owned(), pid: std::process::id().to_string() };
    assert_eq!(error, expected);
    assert!(error.to_string().contains(&format!("is in use by process {}", std::process::id())), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_named_with_the_way_out() {
    for (offset, what) in [(0u64, "the header"), (4096, "pages"), (0, "everything")] {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path());
        for number in 0..200 {
            put(&store, &format!("p{number}")).await;
        }
        drop(store);
        let file = directory.path().join("objects.redb");
        let mut content = std::fs::read(&file).unwrap();
        let end = if what == "the header" { 64 } else { content.len() };
        for byte in &mut content[offset as usize..end] {
            *byte = byte.wrapping_add(0x5b);
        }
        std::fs::write(&file, content).unwrap();
        let error = RedbStore::open(options(directory.path())).err().unwrap_or_else(|| panic!("{what} was damaged"));
        assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("objects.redb") && text.contains("km reset"), "{text}");
    }
}

/// A file on a disk that can be filled.
#[derive(Debug)]
struct Medium {
    file: FileBackend,
    full: Arc<AtomicBool>,
}

impl Medium {
    fn check(&self) -> Result<(), Error> {
        if self.full.load(Ordering::SeqCst) { Err(Error::from(ErrorKind::StorageFull)) } else { Ok(()) }
    }
}

impl StorageBackend for Medium {
    fn len(&self) -> Result<u64, Error> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.check()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> Result<(), Error> {
        self.check()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.check()?;
        self.file.write(offset, data)
    }
}

struct SmallDisk {
    path: PathBuf,
    full: Arc<AtomicBool>,
}

impl Disk for SmallDisk {
    fn open(&self, builder: redb::Builder) -> Result<Database, DatabaseError> {
        let file = std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)?;
        builder.create_with_backend(Medium { file: FileBackend::new(file)?, full: self.full.clone() })
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

#[tokio::test]
async fn a_full_disk_fails_writes_only_and_only_while_it_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let full = Arc::new(AtomicBool::new(false));
    let disk = SmallDisk { path: directory.path().join("objects.redb"), full: full.clone() };
    let store = RedbStore::open_on(options(directory.path()), Box::new(disk)).unwrap();
    put(&store, "before").await;
    let mut watcher = store.watch("pods", None, store.revision()).unwrap();

    full.store(true, Ordering::SeqCst);
    for attempt in ["during", "again"] {
        let error = store.write(pod(attempt)).await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("no space left"), "{error}");
        assert!(store.get(&Key::new("pods", "a", "before")).is_some(), "reads go on");
        assert!(store.get(&Key::new("pods", "a", attempt)).is_none());
    }

    full.store(false, Ordering::SeqCst);
    put(&store, "after").await;
    let names: Vec<String> = watcher.next().await.unwrap().iter().map(|event| event.object.key.name.clone()).collect();
    assert_eq!(names, ["after"]);
    drop(store);
    let store = open(directory.path());
    assert!(store.get(&Key::new("pods", "a", "after")).is_some());
    assert!(store.get(&Key::new("pods", "a", "during")).is_none());
}
