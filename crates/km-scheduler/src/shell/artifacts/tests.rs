//! The executor's command and what agents fetch, from flags.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn served() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 10251))
}

/// What follows from a command line.
fn artifacts(words: &[&str]) -> anyhow::Result<Artifacts> {
    Artifacts::new(&Line::parse_from(std::iter::once(&"scheduler").chain(words)).flags, served())
}

fn command(words: &[&str]) -> v1::CommandInfo {
    artifacts(words).expect("the flags are fine").executor().command.expect("it has a command")
}

const PREINSTALLED: [&str; 2] = ["--agent-km-path=/opt/km", "--agent-kubeconfig=/etc/kc"];
const PLAIN: [&str; 9] = [
    "/opt/km",
    "minion",
    "--kubeconfig=/etc/kc",
    "--run-proxy=true",
    "--max-log-size=10Mi",
    "--max-log-backups=5",
    "--max-log-age=7",
    "--executor-arg=--suicide-timeout=1200s",
    "--executor-arg=--launch-grace-period=300s",
];

#[test]
fn what_is_on_the_agents_is_not_fetched() {
    let artifacts = artifacts(&PREINSTALLED).expect("nothing is served");
    let command = artifacts.executor().command.expect("it has a command");
    assert!(artifacts.files.is_empty() && command.uris.is_empty() && command.environment.is_none());
    assert_eq!((command.value.as_deref(), command.shell), (Some("/opt/km"), Some(false)));
    assert_eq!(command.arguments, PLAIN);
}

#[test]
fn flags_become_arguments_of_the_command() {
    // A flag, and the argument that it adds or (after an arrow) changes.
    let table = [
        ("--minion-flag=--v=2", "--v=2"),
        ("--cluster-dns=10.10.10.10", "--executor-arg=--cluster-dns=10.10.10.10"),
        ("--cluster-domain=cluster.local", "--executor-arg=--cluster-domain=cluster.local"),
        ("--kubelet-root-dir=/data", "--executor-arg=--root-dir=/data"),
        ("--executor-bindall", "--executor-arg=--address=0.0.0.0"),
        ("--proxy-bindall=true", "--proxy-arg=--bind-address=0.0.0.0"),
        ("--proxy-mode=userspace", "--proxy-arg=--proxy-mode=userspace"),
        ("--proxy-mode=iptables", "--proxy-arg=--proxy-mode=nftables"),
        ("--run-proxy=false", "--run-proxy=false"),
        ("--minion-max-log-size=1Mi", "--max-log-size=1Mi"),
        ("--minion-max-log-age=1", "--max-log-age=1"),
        ("--minion-max-log-backups=2", "--max-log-backups=2"),
        ("--executor-suicide-timeout=1500ms", "--executor-arg=--suicide-timeout=1500ms"),
        ("--mesos-launch-grace-period=0s", "--executor-arg=--launch-grace-period=0s"),
    ];
    for (flag, argument) in table {
        let arguments = command(&[PREINSTALLED[0], PREINSTALLED[1], flag]).arguments;
        let new: Vec<&String> = arguments.iter().filter(|word| !PLAIN.contains(&word.as_str())).collect();
        assert_eq!(new, [argument], "{flag}");
    }
}

#[test]
fn verbosity_and_path_are_in_the_environment() {
    let table = [
        ("--executor-logv=2", Some(("KM_LOG", "info,km_proxy=info"))),
        ("--executor-logv=5", Some(("KM_LOG", "debug,km_proxy=info"))),
        ("--proxy-logv=9", Some(("KM_LOG", "info,km_proxy=trace"))),
        ("--minion-path-override=/opt/bin", Some(("PATH", "/opt/bin"))),
        ("--mesos-user=nobody", None),
    ];
    for (flag, expected) in table {
        let command = command(&[PREINSTALLED[0], PREINSTALLED[1], flag]);
        let variables = command.environment.unwrap_or_default().variables;
        let found: Vec<(String, String)> =
            variables.into_iter().map(|variable| (variable.name, variable.value.unwrap_or_default())).collect();
        let expected: Vec<(String, String)> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(found, expected, "{flag}");
    }
    assert_eq!(command(&["--agent-km-path=/k", "--agent-kubeconfig=/c", "--mesos-user=nobody"]).user(), "nobody");
}

#[test]
fn what_is_fetched_comes_from_the_advertised_address() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (km, kubeconfig) = (format!("--km-path={}", file.path().display()), file.path().display());
    let kubeconfig = format!("--kubeconfig={kubeconfig}");
    let uris = |words: &[&str]| -> Vec<String> { command(words).uris.into_iter().map(|uri| uri.value).collect() };
    assert_eq!(uris(&[&km, &kubeconfig]), ["http://10.0.0.1:10251/km", "http://10.0.0.1:10251/kubeconfig"]);
    assert_eq!(uris(&[&km, &kubeconfig, "--advertised-address=lb:80"])[0], "http://lb:80/km");
    for flag in ["--km-path", "--mesos-sandbox-overlay", "--dockercfg-path", "--proxy-kubeconfig"] {
        let missing = format!("{flag}=/does/not/exist");
        let words: Vec<&str> =
            if flag == "--km-path" { vec![&missing, &kubeconfig] } else { vec![&km, &kubeconfig, &missing] };
        let error = artifacts(&words).expect_err("the file is missing").to_string();
        assert!(error.contains("/does/not/exist"), "{flag}: {error}");
    }
}

#[test]
fn the_binary_may_be_elsewhere() {
    let from = |path: &str| command(&[&format!("--km-path={path}"), "--agent-kubeconfig=/etc/kc"]);
    let installed = from("file:///opt/km");
    assert!(installed.uris.is_empty() && installed.value() == "/opt/km");
    let downloaded = from("https://example.org/km-1.2");
    let uri = &downloaded.uris[0];
    assert_eq!((uri.value.as_str(), uri.executable(), uri.output_file()), ("https://example.org/km-1.2", true, "km"));
    assert_eq!(downloaded.value(), "./km");
}

#[test]
fn overlay_credentials_and_the_proxys_kubeconfig_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["km", "kc", "overlay.tar.gz", "metrics"] {
        std::fs::write(path(name), "x").expect("a file");
    }
    let (km, kc) = (format!("--km-path={}", path("km")), format!("--kubeconfig={}", path("kc")));
    let more = [
        format!("--mesos-sandbox-overlay={}", path("overlay.tar.gz")),
        format!("--dockercfg-path={}", path("kc")),
        format!("--proxy-kubeconfig={}", path("kc")),
    ];
    let command = command(&[&km, &kc, &more[0], &more[1], &more[2]]);
    let fetched: Vec<(&str, bool, bool)> = command
        .uris
        .iter()
        .map(|uri| (uri.value.rsplit('/').next().unwrap_or_default(), uri.executable(), uri.extract()))
        .collect();
    let expected = [
        ("km", true, false),
        ("kubeconfig", false, false),
        ("proxy-kubeconfig", false, false),
        (".dockercfg", false, false),
        ("overlay.tar.gz", false, true),
    ];
    assert_eq!(fetched, expected);
    assert!(command.arguments.contains(&"--proxy-kubeconfig=proxy-kubeconfig".to_owned()));
    // A name that the port uses itself.
    let clash = format!("--mesos-sandbox-overlay={}", path("metrics"));
    let error = artifacts(&[&km, &kc, &clash]).expect_err("the name is taken").to_string();
    assert!(error.contains("rename it"), "{error}");
}

#[test]
fn executors_may_know_the_api_server_by_another_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kc");
    let cluster =
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: QQ==}}]";
    let user = "users: [{name: u, user: {token: secret}}]";
    let context = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x";
    std::fs::write(&file, format!("{cluster}\n{user}\n{context}\n")).expect("a file");
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let text = |words: &[&str]| -> String {
        let files = artifacts(words).expect("the flags are fine").files;
        match &files[0].1 {
            Content::Text(text) => text.to_string(),
            Content::File(path) => std::fs::read_to_string(path).expect("it is there"),
        }
    };
    let written = text(&["--agent-km-path=/k", &kubeconfig, "--kubelet-api-servers=https://10.0.0.5:6443"]);
    assert!(written.contains("https://10.0.0.5:6443") && written.contains("secret"), "{written}");
    assert!(!written.contains("127.0.0.1"), "{written}");
    let alone = text(&["--agent-km-path=/k", "--api-servers=http://10.0.0.6:8080"]);
    assert!(alone.contains("http://10.0.0.6:8080") && alone.contains("current-context"), "{alone}");
    assert!(text(&["--agent-km-path=/k", &kubeconfig]).contains("127.0.0.1"));
}

#[test]
fn static_pods_are_in_the_executor_and_counted_with_it() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let flag = format!("--static-pods-config={}", folder.path().display());
    let line = |words: &[&str]| Line::parse_from(["scheduler"].iter().chain(&PREINSTALLED).chain(words)).flags;
    let made = |flags: &Flags| Artifacts::new(flags, served()).expect("the folder is fine").executor();
    let without = made(&line(&[]));
    assert_eq!(without.data, None);
    assert_eq!(made(&line(&[&flag])), without, "an empty folder is none");
    let manifest = |cpu: &str| {
        let resources = format!("{{requests: {{cpu: {cpu}, memory: 10Mi}}, limits: {{cpu: 2}}}}");
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x, resources: ";
        std::fs::write(folder.path().join("p.yaml"), format!("{pod}{resources}}}]}}")).expect("it can be written");
    };
    manifest("500m");
    let executor = made(&line(&[&flag]));
    assert_eq!(made(&line(&[&flag])), executor, "the same files are the same executor");
    assert_ne!(executor.executor_id, without.executor_id);
    for (accounting, milli_cpu, megabytes) in [("requests", 250 + 500, 128 + 32), ("limits", 250 + 2000, 128 + 32)] {
        let flags = line(&[&flag, &format!("--pod-accounting={accounting}")]);
        let config = flags.config(made(&flags));
        assert_eq!((config.executor_milli_cpu, config.executor_memory_bytes >> 20), (milli_cpu, megabytes));
    }
    manifest("600m");
    assert_ne!(made(&line(&[&flag])).executor_id, executor.executor_id, "other pods are another executor");
    let missing =
        Artifacts::new(&line(&["--static-pods-config=/nowhere"]), served()).expect_err("there is no such folder");
    assert!(format!("{missing:#}").contains("--static-pods-config: reading /nowhere"), "{missing:#}");
}
