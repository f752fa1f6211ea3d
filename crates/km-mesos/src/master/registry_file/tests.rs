//! The log on disk: what a master finds after it was killed at any moment, and when the file is written anew.

use std::time::Duration;

use km_mesos_core::master::{AgentRecord, ClusterRecord, RegisteredAgent};
use km_mesos_proto::v1;

use super::*;

fn info(id: &str) -> v1::AgentInfo {
    v1::AgentInfo {
        hostname: format!("host of {id}"),
        id: Some(v1::AgentId { value: id.to_owned() }),
        ..v1::AgentInfo::default()
    }
}

fn agent(id: &str, record: AgentRecord) -> RegistryChange {
    RegistryChange::Agent { id: id.to_owned(), record: Box::new(record) }
}

fn admitted(id: &str) -> RegistryChange {
    let drain = v1::DrainInfo { state: v1::DrainState::Draining as i32, config: v1::DrainConfig::default() };
    let admitted = RegisteredAgent {
        info: info(id),
        deactivated: true,
        drain: Some(drain),
        drain_start: Some(Duration::from_nanos(7)),
    };
    agent(id, AgentRecord { admitted: Some(admitted), ..AgentRecord::default() })
}

/// Every kind of change.
fn changes() -> Vec<RegistryChange> {
    let lost = AgentRecord { unreachable: Some((info("b"), Duration::from_secs(3))), ..AgentRecord::default() };
    let gone = AgentRecord { gone: Some(Duration::from_secs(4)), ..AgentRecord::default() };
    let machine = v1::MachineId { hostname: Some("host of a".to_owned()), ip: Some("10.0.0.1".to_owned()) };
    let cluster = ClusterRecord {
        down_machines: vec![machine],
        weights: [("batch".to_owned(), 2.5)].into(),
        quotas: vec![v1::quota::QuotaConfig { role: "batch".to_owned(), ..v1::quota::QuotaConfig::default() }],
        ..ClusterRecord::default()
    };
    let forgotten = agent("d", AgentRecord::default());
    let cluster = RegistryChange::Cluster(Box::new(cluster));
    vec![admitted("a"), admitted("b"), agent("b", lost), agent("c", gone), admitted("d"), forgotten, cluster]
}

struct Disk {
    directory: tempfile::TempDir,
    file: RegistryFile,
    known: Registry,
}

impl Disk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut file = RegistryFile::open(directory.path()).expect("it is made");
        file.replace(&Registry::default()).expect("written");
        Self { directory, file, known: Registry::default() }
    }

    fn write(&mut self, change: &RegistryChange) {
        self.known.apply(change.clone());
        self.file.write(change, || self.known.clone()).expect("written");
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("registry.json")
    }

    fn size(&self) -> u64 {
        fs::metadata(self.path()).expect("it is there").len()
    }

    fn read_anew(&self) -> anyhow::Result<Registry> {
        RegistryFile::open(self.directory.path())?.read()
    }
}

#[test]
fn after_each_change_all_is_on_disk() {
    let mut disk = Disk::new();
    for change in changes() {
        disk.write(&change);
        assert_eq!(disk.read_anew().expect("it is whole"), disk.known);
    }
    assert_eq!(disk.known.agents.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    disk.file.replace(&disk.known).expect("written");
    assert_eq!(disk.read_anew().expect("it is whole"), disk.known);
}

#[test]
fn a_change_is_written_alone() {
    let mut disk = Disk::new();
    disk.write(&admitted("0000"));
    let mut before = disk.size();
    let mut first = None;
    for number in 1..50 {
        disk.write(&admitted(&format!("{number:04}")));
        let grown = disk.size() - before;
        assert_eq!(grown, *first.get_or_insert(grown), "agent {number}");
        before = disk.size();
    }
}

#[test]
fn the_log_is_written_anew_when_its_changes_outgrow_it() {
    let mut disk = Disk::new();
    let mut largest = 0;
    // As one agent comes and goes, little is known however often it does.
    for _ in 0..2 * FEW_BYTES / lines::of_change(&admitted("a")).expect("a line").len() {
        disk.write(&admitted("a"));
        largest = largest.max(disk.size());
    }
    let most = u64::try_from(FEW_BYTES + FEW_BYTES / 8).expect("it fits");
    assert!(largest < most, "{largest} bytes for one agent");
    assert_eq!(disk.read_anew().expect("it is whole"), disk.known);
}

#[test]
fn a_line_without_an_end_was_never_told_of() {
    let mut disk = Disk::new();
    disk.write(&admitted("a"));
    let known = disk.known.clone();
    let before = disk.size();
    disk.write(&admitted("b"));
    let text = fs::read(disk.path()).expect("read");
    for length in usize::try_from(before).expect("it fits")..text.len() {
        fs::write(disk.path(), &text[..length]).expect("written");
        assert_eq!(disk.read_anew().expect("only its end is missing"), known, "{length} bytes");
    }
}

/// Masters before wrote one JSON document, without a line end, and replaced it as a whole.
#[test]
fn a_file_from_before_the_log_is_read_and_goes_on_as_a_log() {
    let mut disk = Disk::new();
    let before = r#"{"agents":[],"unreachable":[],"gone":[["c",4000000000]],"schedule":"","down_machines":[],"weights":{"batch":2.5},"quotas":[]}"#;
    fs::write(disk.path(), before).expect("written");
    disk.known = disk.read_anew().expect("it is whole");
    assert_eq!(disk.known.agents["c"].gone, Some(Duration::from_secs(4)));
    assert_eq!(disk.known.cluster.weights["batch"], 2.5);
    disk.file = RegistryFile::open(disk.directory.path()).expect("it is there");
    for change in changes() {
        disk.write(&change);
        assert_eq!(disk.read_anew().expect("it is whole"), disk.known);
    }
}

#[test]
fn damage_is_told_with_its_line() {
    let disk = Disk::new();
    for (content, line) in [("nonsense", 1), ("", 1)] {
        fs::write(disk.path(), content).expect("written");
        let error = disk.read_anew().expect_err(content).to_string();
        assert!(error.contains(&format!("damaged in line {line}")), "{error}");
    }
    let mut disk = Disk::new();
    disk.write(&admitted("a"));
    let mut text = fs::read(disk.path()).expect("read");
    text.extend(b"{\"unknown\":1}\n");
    fs::write(disk.path(), text).expect("written");
    let error = disk.read_anew().expect_err("an unknown change").to_string();
    assert!(error.contains("damaged in line 3"), "{error}");
}
