//! What a container of a pod sees and how it ends.

use km_testkit::{Kubectl, eventually};

use crate::cluster;

const BUSYBOX: &str = "localhost/km/busybox:v1";

/// A pod of one busybox container that runs a shell script, with more lines of its container and of its spec.
fn pod(name: &str, script: &str, container: &str, spec: &str) -> String {
    let script = serde_json::Value::from(script);
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{probe: yes-it-is}}}}\nspec:\n  restartPolicy: Never\n  \
         terminationGracePeriodSeconds: 3\n{spec}  containers:\n  - name: main\n    image: {BUSYBOX}\n    command: [sh, -c, \
         {script}]\n    resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}\n{container}"
    )
}

fn phase(kubectl: &Kubectl, name: &str) -> Result<String, String> {
    kubectl.try_run(&format!("get pod {name} -o jsonpath={{.status.phase}}"))
}

#[track_caller]
fn ends(kubectl: &Kubectl, name: &str, wanted: &str) {
    eventually(&format!("{name} ends as {wanted}"), || match phase(kubectl, name)? {
        phase if phase == wanted => Ok(()),
        _ => Err(kubectl.try_run(&format!("describe pod {name}"))?),
    });
}

fn field(kubectl: &Kubectl, name: &str, path: &str) -> String {
    kubectl.run(&format!("get pod {name} -o jsonpath={{{path}}}"))
}

#[test]
fn pods_see_what_their_manifest_says_and_end_as_kubernetes_says() {
    let mut turn = cluster(&["--agents", "1"]);
    let kubectl = turn.cluster.kubectl.clone();

    environment_volumes_and_working_directory(&kubectl);
    exit_codes_and_reasons(&kubectl);
    init_containers_run_first_and_in_order(&kubectl);
    a_failing_container_restarts_with_back_off(&kubectl);
    termination_is_graceful_then_forced(&kubectl);
    a_memory_hog_is_killed_and_says_so(&kubectl);
    two_containers_share_the_network(&kubectl);
    labels_and_resources_change_while_the_pod_runs(&kubectl);
    a_host_port_that_something_else_holds_is_named(&kubectl);
    huge_pages_are_as_on_the_host(&kubectl);

    turn.cluster.stop();
}

fn environment_volumes_and_working_directory(kubectl: &Kubectl) {
    kubectl.run("create configmap settings --from-literal=colour=blue --from-literal=file.txt=from-configmap");
    kubectl.run("create secret generic hidden --from-literal=word=from-secret");
    let script = "echo \"$GREETING|$COLOUR|$WORD|$ME|$(pwd)|$(cat /cm/file.txt)|$(cat /secret/word)\"; echo shared > /data/x; cat \
                  /data/x; hostname";
    let container = "    workingDir: /tmp\n    env:\n    - {name: WHO, value: world}\n    - {name: GREETING, value: 'hello $(WHO) $$(WHO) \
                     $(NOBODY)'}\n    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}\n    - {name: WORD, \
                     valueFrom: {secretKeyRef: {name: hidden, key: word}}}\n    - {name: ME, valueFrom: {fieldRef: {fieldPath: \
                     metadata.name}}}\n    volumeMounts:\n    - {name: cm, mountPath: /cm}\n    - {name: secret, mountPath: /secret, \
                     readOnly: true}\n    - {name: scratch, mountPath: /data}\n";
    let spec = "  volumes:\n  - {name: cm, configMap: {name: settings}}\n  - {name: secret, secret: {secretName: hidden}}\n  - {name: \
                scratch, emptyDir: {}}\n";
    kubectl.apply(&pod("sees", script, container, spec));
    ends(kubectl, "sees", "Succeeded");
    let log = kubectl.run("logs sees");
    assert_eq!(
        log,
        "hello world $(WHO) $(NOBODY)|blue|from-secret|sees|/tmp|from-configmap|from-secret\nshared\nsees\n"
    );
}

/// What our own processes do without is not taken from containers, which are their children.
fn huge_pages_are_as_on_the_host(kubectl: &Kubectl) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let on_the_host: String = status.lines().filter(|line| line.starts_with("THP_enabled")).collect();
    kubectl.apply(&pod("huge", "grep THP_enabled /proc/self/status || true", "", ""));
    ends(kubectl, "huge", "Succeeded");
    assert_eq!(kubectl.run("logs huge").trim_end(), on_the_host);
}

fn exit_codes_and_reasons(kubectl: &Kubectl) {
    for (name, script, wanted, code, reason) in
        [("fine", "exit 0", "Succeeded", "0", "Completed"), ("wrong", "exit 3", "Failed", "3", "Error")]
    {
        kubectl.apply(&pod(name, script, "", ""));
        ends(kubectl, name, wanted);
        let state = ".status.containerStatuses[0].state.terminated";
        assert_eq!(field(kubectl, name, &format!("{state}.exitCode")), code);
        assert_eq!(field(kubectl, name, &format!("{state}.reason")), reason);
    }
}

fn init_containers_run_first_and_in_order(kubectl: &Kubectl) {
    let init = |name: &str| {
        format!(
            "  - name: {name}\n    image: {BUSYBOX}\n    command: [sh, -c, 'echo {name} >> /data/order']\n    volumeMounts: [{{name: d, mountPath: /data}}]\n"
        )
    };
    let spec =
        format!("  volumes: [{{name: d, emptyDir: {{}}}}]\n  initContainers:\n{}{}", init("first"), init("second"));
    kubectl.apply(&pod("ordered", "cat /data/order", "    volumeMounts: [{name: d, mountPath: /data}]\n", &spec));
    ends(kubectl, "ordered", "Succeeded");
    assert_eq!(kubectl.run("logs ordered"), "first\nsecond\n");
}

fn a_failing_container_restarts_with_back_off(kubectl: &Kubectl) {
    let manifest =
        pod("crashing", "echo attempt; exit 1", "", "").replace("restartPolicy: Never", "restartPolicy: Always");
    kubectl.apply(&manifest);
    eventually("the container waits in CrashLoopBackOff after a restart", || {
        let reason =
            kubectl.try_run("get pod crashing -o jsonpath={.status.containerStatuses[0].state.waiting.reason}")?;
        let restarts = kubectl.try_run("get pod crashing -o jsonpath={.status.containerStatuses[0].restartCount}")?;
        if reason == "CrashLoopBackOff" && restarts != "0" { Ok(()) } else { Err(format!("{reason} {restarts}")) }
    });
    assert_eq!(kubectl.run("logs crashing --previous"), "attempt\n");
    kubectl.run("delete pod crashing --wait=true --timeout=60s");
}

fn termination_is_graceful_then_forced(kubectl: &Kubectl) {
    kubectl.apply(&pod("polite", "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.1; done", "", ""));
    kubectl.apply(&pod("stubborn", "trap '' TERM; echo up; while true; do sleep 0.1; done", "", ""));
    kubectl.run("wait --for=condition=Ready pod/polite pod/stubborn --timeout=60s");
    let mut follow = kubectl.command("logs -f polite");
    let follow = follow.stdout(std::process::Stdio::piped()).spawn().unwrap();
    kubectl.run("delete pod polite stubborn --timeout=60s");
    let log = follow.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "up\nbye\n");
    assert!(kubectl.fails("get pod polite").contains("NotFound"));
}

fn a_memory_hog_is_killed_and_says_so(kubectl: &Kubectl) {
    let hog = "x=a; while true; do x=$x$x; done";
    let manifest = pod("hog", hog, "", "").replace("memory: 32Mi}}", "memory: 32Mi}, limits: {memory: 32Mi}}");
    kubectl.apply(&manifest);
    ends(kubectl, "hog", "Failed");
    assert_eq!(field(kubectl, "hog", ".status.containerStatuses[0].state.terminated.reason"), "OOMKilled");
}

fn two_containers_share_the_network(kubectl: &Kubectl) {
    let second = format!(
        "  - name: server\n    image: {BUSYBOX}\n    command: [sh, -c, 'mkdir /w; echo shared-net > /w/index.html; httpd -f -p 8099 -h /w']\n    resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}\n"
    );
    let script = "until wget -q -O - http://127.0.0.1:8099/; do sleep 0.2; done; sleep 1000";
    kubectl.apply(&pod("pair", script, &second, ""));
    eventually("the first container reads from the second", || match kubectl.try_run("logs pair -c main")? {
        log if log.contains("shared-net") => Ok(()),
        log => Err(log),
    });
    assert!(kubectl.run("get pod pair").contains("2/2"));
    kubectl.run("delete pod pair --grace-period=1");
}

fn labels_and_resources_change_while_the_pod_runs(kubectl: &Kubectl) {
    let script = "cat /info/labels; until grep -q changed /info/labels; do sleep 0.2; done; echo seen; sleep 1000";
    let container = "    volumeMounts: [{name: info, mountPath: /info}]\n";
    let spec =
        "  volumes: [{name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}]\n";
    let limits = "memory: 32Mi}, limits: {cpu: 100m, memory: 64Mi}}";
    kubectl.apply(&pod("grows", script, container, spec).replace("memory: 32Mi}}", limits));
    kubectl.run("wait --for=condition=Ready pod/grows --timeout=60s");
    kubectl.run("label pod grows probe=changed --overwrite");
    eventually("the container sees its new label", || match kubectl.try_run("logs grows")? {
        log if log.contains("seen") => Ok(()),
        log => Err(log),
    });
    let group = format!("{}/{0}-main-0", field(kubectl, "grows", ".metadata.uid"));
    assert_eq!(group_file(&group, &["memory.limit_in_bytes", "memory.max"]), (64 << 20).to_string());

    // The task holds the requests; limits may be beyond.
    let resize = |resources: &str| {
        let patch = format!("{{\"spec\":{{\"containers\":[{{\"name\":\"main\",\"resources\":{resources}}}]}}}}");
        kubectl.run(&format!("patch pod grows --subresource resize -p {patch}"));
    };
    resize(r#"{"limits":{"cpu":"200m","memory":"96Mi"}}"#);
    eventually("the limits are changed in place", || {
        let shown = kubectl.try_run("get pod grows -o jsonpath={.status.containerStatuses[0].resources.limits}")?;
        if shown == r#"{"cpu":"200m","memory":"96Mi"}"# { Ok(()) } else { Err(shown) }
    });
    assert_eq!(group_file(&group, &["memory.limit_in_bytes", "memory.max"]), (96 << 20).to_string());
    assert!(group_file(&group, &["cpu.cfs_quota_us", "cpu.max"]).starts_with("20000"));
    let pending = "{.status.conditions[?(@.type=='PodResizePending')].reason}";
    resize(r#"{"requests":{"cpu":"150m"}}"#);
    eventually("more than the task holds is refused", || {
        match kubectl.try_run(&format!("get pod grows -o jsonpath={pending}"))? {
            reason if reason == "Infeasible" => Ok(()),
            reason => Err(reason),
        }
    });
    resize(r#"{"requests":{"cpu":"10m"}}"#);
    eventually("the refusal goes with its cause", || {
        match kubectl.try_run(&format!("get pod grows -o jsonpath={pending}"))? {
            reason if reason.is_empty() => Ok(()),
            reason => Err(reason),
        }
    });
    assert_eq!(field(kubectl, "grows", ".status.containerStatuses[0].restartCount"), "0");
    kubectl.run("delete pod grows --grace-period=1");
}

fn a_host_port_that_something_else_holds_is_named(kubectl: &Kubectl) {
    // The agent offers 500 ports from 31000 up, and Mesos knows of nobody who holds one of them.
    let held = (31_100..31_500).find_map(|port| std::net::TcpListener::bind(("0.0.0.0", port)).ok()).unwrap();
    let port = held.local_addr().unwrap().port();
    let ports = format!("    ports: [{{containerPort: 80, hostPort: {port}}}]\n");
    kubectl.apply(&pod("bystander", "sleep 1000", "", ""));
    kubectl.run("wait --for=condition=Ready pod/bystander --timeout=60s");
    kubectl.apply(&pod("unlucky", "sleep 1000", &ports, ""));
    ends(kubectl, "unlucky", "Failed");
    assert_eq!(field(kubectl, "unlucky", ".status.reason"), "HostPortTaken");
    let message = field(kubectl, "unlucky", ".status.message");
    assert!(message.contains(&format!("host port {port}/TCP")), "{message}");
    assert_eq!(phase(kubectl, "bystander").as_deref(), Ok("Running"));
    kubectl.run("delete pod bystander unlucky --grace-period=1");
}

/// The value of the first of these files in the control group that ends so, in whatever hierarchy.
fn group_file(suffix: &str, names: &[&str]) -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = table.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    for root in roots {
        for agent in std::fs::read_dir(format!("{root}/km")).into_iter().flatten() {
            let group = agent.unwrap().path().join(suffix);
            if let Some(value) = names.iter().find_map(|name| std::fs::read_to_string(group.join(name)).ok()) {
                return value.trim().to_owned();
            }
        }
    }
    panic!("no file {names:?} of a group {suffix}");
}
