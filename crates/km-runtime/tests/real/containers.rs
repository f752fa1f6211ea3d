//! Start, output, end, mounts, users, failures.

use km_runtime::{ContainerSpec, ContainerState, Mount, Runtime, RuntimeError, SandboxSpec, builtin};

use crate::support::{Host, exited, log, run, sandbox, shell, until};

#[tokio::test]
async fn hello_answers_health_checks_and_ends_when_told() {
    let host = Host::new();
    let runtime = host.open().await;
    let made = runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    assert_eq!(runtime.run_sandbox(&sandbox("p1")).await.unwrap(), made, "the same sandbox again");
    let spec = ContainerSpec {
        id: "c1".into(),
        sandbox_id: "p1".into(),
        name: "hello".into(),
        image: "localhost/km/hello:v1".into(),
        env: vec![("PORT".into(), "80".into()), ("NODE_NAME".into(), "node-7".into())],
        ..ContainerSpec::default()
    };
    let status = runtime.start_container(&spec).await.unwrap();
    assert_eq!(status.state, ContainerState::Running);
    let address = format!("{}:80", made.ip.unwrap());
    until("the server listens", async || tokio::net::TcpStream::connect(&address).await.is_ok()).await;
    let url = |path: &str| format!("http://{address}{path}");
    assert_eq!(crate::network::get(&url("/healthz")).await.unwrap(), "ok\n");
    let text = crate::network::get(&url("/")).await.unwrap();
    assert!(text.contains("host-p1") && text.contains("node-7"), "{text}");

    runtime.signal_container("c1", 15).await.unwrap();
    let status = exited(&runtime, "c1").await;
    assert_eq!((status.exit_code, status.reason.as_str()), (Some(0), "Completed"));
    assert!(status.started_at <= status.finished_at && status.started_at.is_some());
    let text = log(&status.log_path);
    assert!(text.contains("GET /healthz HTTP/1.1\n") && text.ends_with("terminating: signal received\n"), "{text}");
    // All again, and more often than needed.
    runtime.signal_container("c1", 15).await.unwrap();
    runtime.remove_container("c1").await.unwrap();
    runtime.remove_container("c1").await.unwrap();
    assert!(matches!(runtime.container_status("c1").await, Err(RuntimeError::NotFound { .. })));
    assert!(!status.log_path.exists());
    runtime.remove_sandbox("p1").await.unwrap();
    runtime.remove_sandbox("p1").await.unwrap();
    assert!(runtime.list_sandboxes().await.unwrap().is_empty());
}

#[tokio::test]
async fn exit_codes_output_and_environment_come_through() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    let mut spec =
        shell("c1", "p1", "echo out $A $HOSTNAME $(hostname); echo err >&2; pwd; id -u; printf tail; exit 3");
    spec.env = vec![("A".into(), "a b".into())];
    spec.working_dir = Some("/made/for/me".into());
    spec.run_as_user = Some(1234);
    let (status, text) = run(&runtime, spec).await;
    assert_eq!((status.exit_code, status.signal, status.reason.as_str()), (Some(3), None, "Error"));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/made/for/me", "1234", "err", "out a b host-p1 host-p1", "tail"]);

    runtime.start_container(&shell("c3", "p1", "sleep 600")).await.unwrap();
    runtime.signal_container("c3", 9).await.unwrap();
    let status = exited(&runtime, "c3").await;
    assert_eq!((status.exit_code, status.signal, status.reason.as_str()), (Some(137), Some(9), "Error"));
}

#[tokio::test]
async fn files_are_mounted_where_and_how_the_pod_wants() {
    let host = Host::new();
    let runtime = host.open().await;
    let hosts = vec!["10.1.2.3\tfriend".to_owned()];
    runtime.run_sandbox(&SandboxSpec { hosts, ..sandbox("p1") }).await.unwrap();
    let data = host.path("data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("in"), "from the host").unwrap();
    let mut spec = shell(
        "c1",
        "p1",
        "cat /data/in; echo; echo back > /data/out; touch /ro/x 2>/dev/null || echo read-only; \
         touch /x 2>/dev/null || echo root read-only; grep -c host-p1 /etc/hosts; grep -c '^10.1.2.3.friend' /etc/hosts; \
         cat /etc/hostname; \
         ls /sys/kernel >/dev/null && echo sys; echo x 2>/dev/null > /proc/sys/kernel/hostname || echo proc protected",
    );
    let mount = |path: &str, read_only| Mount { host_path: data.clone(), container_path: path.into(), read_only };
    spec.mounts = vec![mount("/data", false), mount("/ro", true)];
    spec.read_only_root = true;
    let (status, text) = run(&runtime, spec).await;
    let expected = "from the host\nread-only\nroot read-only\n1\n1\nhost-p1\nsys\nproc protected\n";
    assert_eq!((text.as_str(), status.exit_code), (expected, Some(0)));
    assert_eq!(std::fs::read_to_string(data.join("out")).unwrap(), "back\n");
}

#[tokio::test]
async fn what_cannot_run_says_why_and_stays_listed() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    for (id, command, user, code, reason) in [
        ("c1", "no-such-program", None, 127, "executable file not found in $PATH"),
        ("c2", "/no/such/program", None, 127, "no such file or directory"),
        ("c3", "/etc/passwd", None, 126, "permission denied"),
        ("c4", "/etc/passwd", Some(7), 126, "permission denied"),
    ] {
        let mut spec = shell(id, "p1", "");
        spec.command = vec![command.into()];
        spec.run_as_user = user;
        let error = runtime.start_container(&spec).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{command}: {error}");
        let status = runtime.container_status(id).await.unwrap();
        assert_eq!(status.state, ContainerState::Exited);
        assert_eq!((status.exit_code, status.reason.as_str()), (Some(code), "ContainerCannotRun"), "{command}");
        assert!(status.message.contains(reason), "{}", status.message);
    }
    let mut spec = shell("c5", "p1", "");
    spec.image = "example.com/none".into();
    assert!(matches!(runtime.start_container(&spec).await, Err(RuntimeError::ImageNotPresent(_))));
    spec.sandbox_id = "none".into();
    assert!(matches!(runtime.start_container(&spec).await, Err(RuntimeError::NotFound { kind: "sandbox", .. })));
    // Other containers of the pod are not harmed.
    let (status, _) = run(&runtime, shell("c6", "p1", "true")).await;
    assert_eq!(status.exit_code, Some(0));
}

#[tokio::test]
async fn privileged_containers_may_mount_and_others_may_not() {
    let host = Host::new();
    let runtime = host.open().await;
    runtime.run_sandbox(&sandbox("p1")).await.unwrap();
    let script = "mkdir /m; mount -t tmpfs none /m && touch /m/x";
    let (status, _) = run(&runtime, shell("c1", "p1", script)).await;
    assert_ne!(status.exit_code, Some(0));
    let mut spec = shell("c2", "p1", script);
    spec.privileged = true;
    let (status, text) = run(&runtime, spec).await;
    assert_eq!(status.exit_code, Some(0), "{text}");
}

#[tokio::test]
async fn the_pause_image_ends_when_told() {
    let host = Host::new();
    let runtime = host.open().await;
    let mut pod = sandbox("p1");
    pod.host_network = true;
    assert_eq!(runtime.run_sandbox(&pod).await.unwrap().ip, None);
    let mut spec = shell("c1", "p1", "");
    spec.image = builtin::PAUSE.into();
    spec.command.clear();
    let status = runtime.start_container(&spec).await.unwrap();
    until("the program waits", async || log(&status.log_path) == "waiting for a signal\n").await;
    runtime.signal_container("c1", 15).await.unwrap();
    assert_eq!(exited(&runtime, "c1").await.exit_code, Some(0));
}
