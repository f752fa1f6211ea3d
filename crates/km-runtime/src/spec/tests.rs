//! What a container is given, for what its pod asks.

use super::*;
use crate::{Mount, bundle::ImageConfig};

pub fn record() -> ContainerRecord {
    ContainerRecord {
        spec: ContainerSpec { id: "c1".into(), image: "busybox".into(), ..ContainerSpec::default() },
        image_id: "sha256:1".into(),
        image_lock: "/i/lock".into(),
        layer_root: "/i/layers".into(),
        layers: vec!["a".into()],
        image_config: ImageConfig {
            env: vec!["PATH=/bin".into(), "A=image".into()],
            entrypoint: vec!["/entry".into()],
            cmd: vec!["cmd".into()],
            working_dir: "srv".into(),
            ..ImageConfig::default()
        },
        netns: None,
        hostname: Some("web-0".into()),
        sandbox_files: "/s".into(),
        cgroup: "/km/a/p/c1".into(),
        log_path: "/l/0.log".into(),
        created_at: 0,
    }
}

const ALL: u64 = (1 << 41) - 1;

fn built(record: &ContainerRecord, bounds: u64) -> Value {
    let identity = Identity { uid: 5, gid: 6, additional_gids: vec![7], home: "/home/x".into() };
    let value = build(record, &identity, &Machine { capability_bounds: bounds, devices: vec![] }).unwrap();
    serde_json::from_value::<oci_spec::runtime::Spec>(value.clone()).expect("libcontainer can read it");
    value
}

#[test]
fn command_and_args_follow_the_table_of_kubernetes() {
    for (command, args, expected) in [
        (&[][..], &[][..], "/entry cmd"),
        (&["/c"], &[], "/c"),
        (&[], &["a"], "/entry a"),
        (&["/c"], &["a", "b"], "/c a b"),
    ] {
        let mut record = record();
        record.spec.command = command.iter().map(|word: &&str| (*word).to_owned()).collect();
        record.spec.args = args.iter().map(|word: &&str| (*word).to_owned()).collect();
        assert_eq!(arguments(&record).unwrap().join(" "), expected);
    }
    let mut empty = record();
    empty.image_config = ImageConfig::default();
    assert!(arguments(&empty).unwrap_err().contains("no command specified"));
}

#[test]
fn later_variables_win_and_each_stands_once() {
    let mut record = record();
    record.spec.env = vec![("A".into(), "pod".into()), ("B".into(), "1".into()), ("B".into(), "x=2".into())];
    let env = built(&record, ALL)["process"]["env"].clone();
    assert_eq!(env, json!(["PATH=/bin", "HOSTNAME=web-0", "HOME=/home/x", "A=pod", "B=x=2"]));
}

#[test]
fn capabilities_never_exceed_the_bounds() {
    let mut spec = ContainerSpec { privileged: true, ..ContainerSpec::default() };
    assert_eq!(capabilities(&spec, ALL).len(), 41);
    let without_resource = ALL & !(1 << 24);
    assert!(!capabilities(&spec, without_resource).contains(&"CAP_SYS_RESOURCE".to_owned()));
    spec.privileged = false;
    assert_eq!(capabilities(&spec, ALL).len(), DEFAULT_CAPABILITIES.len());
    spec.drop_capabilities = vec!["ALL".into()];
    spec.add_capabilities = vec!["net_admin".into(), "CAP_CHOWN".into()];
    assert_eq!(capabilities(&spec, ALL), ["CAP_CHOWN", "CAP_NET_ADMIN"]);
    spec.drop_capabilities = vec!["KILL".into()];
    spec.add_capabilities = vec!["ALL".into()];
    assert_eq!(capabilities(&spec, ALL).len(), 40);
}

#[test]
fn limits_are_turned_into_the_kernels_units() {
    let mut record = record();
    assert_eq!(built(&record, ALL)["linux"]["resources"]["cpu"], json!({ "shares": 2 }));
    record.spec.cpu_shares = 512;
    record.spec.cpu_limit_milli = 250;
    record.spec.memory_limit_bytes = 64 << 20;
    let resources = built(&record, ALL)["linux"]["resources"].clone();
    assert_eq!(resources["cpu"], json!({ "shares": 512, "period": 100_000, "quota": 25_000 }));
    assert_eq!(resources["memory"], json!({ "limit": 64 << 20 }));
    record.spec.cpu_limit_milli = 1;
    assert_eq!(built(&record, ALL)["linux"]["resources"]["cpu"]["quota"], 1000);
}

#[test]
fn outer_mounts_come_before_inner_ones_and_the_pods_own_hosts_file_wins() {
    let mut record = record();
    let mount = |path: &str, read_only| Mount { host_path: "/h".into(), container_path: path.into(), read_only };
    record.spec.mounts = vec![mount("/data/inner", true), mount("/data", false), mount("/etc/hosts", true)];
    let value = built(&record, ALL);
    let found: Vec<(String, String)> = value["mounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["type"] == "bind")
        .map(|mount| (mount["destination"].as_str().unwrap().into(), mount["options"][2].as_str().unwrap().into()))
        .collect();
    let expected = [
        ("/etc/hostname", "rw"),
        ("/etc/resolv.conf", "rw"),
        ("/data", "rw"),
        ("/data/inner", "ro"),
        ("/etc/hosts", "ro"),
    ];
    assert_eq!(found, expected.map(|(path, mode)| (path.to_owned(), mode.to_owned())));
}

#[test]
fn the_hosts_network_comes_with_the_hosts_name() {
    let mut record = record();
    record.hostname = None;
    let value = built(&record, ALL);
    assert_eq!(value.get("hostname"), None);
    assert!(!value["process"]["env"].to_string().contains("HOSTNAME"));
}

#[test]
fn relative_working_folders_start_at_the_root() {
    let mut record = record();
    assert_eq!(working_dir(&record), Path::new("/srv"));
    record.spec.working_dir = Some("/tmp".into());
    assert_eq!(working_dir(&record), Path::new("/tmp"));
    record.spec.working_dir = Some(String::new());
    record.image_config.working_dir = String::new();
    assert_eq!(working_dir(&record), Path::new("/"));
}
