//! Two schedulers as processes of their own: one leads, one stands by, and pods outlive every change of the leader.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    sync::MutexGuard,
};

use km_testkit::{Kubectl, Process, eventually, free_port, leftovers};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::{example, hello, km, turn};

const AGENTS: u16 = 2;

/// A scheduler and the port of its HTTP server.
struct Scheduler {
    process: Process,
    port: u16,
}

impl Scheduler {
    /// The line about its role, once it is ready.
    fn role(&self) -> Result<String, String> {
        let text = hello::get(&format!("http://127.0.0.1:{}/readyz?verbose", self.port))?;
        let line = text.lines().find_map(|line| line.strip_prefix("[i]role: "));
        line.map(str::to_owned).ok_or(text)
    }

    #[track_caller]
    fn becomes(&self, role: &str) {
        eventually(&format!("the scheduler is {role}"), || match self.role()? {
            said if said.starts_with(role) => Ok(()),
            said => Err(said),
        });
    }
}

/// A cluster whose parts are processes. Dropping it ends them.
struct Stage {
    folder: TempDir,
    mesos_port: u16,
    kubectl: Kubectl,
    agents: Vec<Process>,
    _servers: Vec<Process>,
    started: u32,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    fn set() -> Self {
        let turn = turn();
        let folder = tempfile::Builder::new().prefix("km-test-").tempdir().unwrap();
        let (api_port, mesos_port) = (free_port(), free_port());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let data = path("apiserver");
        let apiserver =
            role(folder.path(), "apiserver", &[format!("--data-dir={data}"), format!("--secure-port={api_port}")]);
        let kubeconfig = folder.path().join("apiserver/admin.kubeconfig");
        let kubectl = Kubectl::new(&kubeconfig);
        eventually("the API server is ready", || kubectl.try_run("get --raw /readyz"));
        let words = [format!("--kubeconfig={}", kubeconfig.display()), "--port=0".to_owned()];
        let controllers = role(folder.path(), "controller-manager", &words);
        let words = [format!("--port={mesos_port}"), format!("--work-dir={}", path("master"))];
        let master = role(folder.path(), "mesos-master", &words);
        let agents = (1..=AGENTS)
            .map(|number| {
                let first = 30_000 + number * 1000;
                let words = [
                    format!("--master=127.0.0.1:{mesos_port}"),
                    "--port=0".to_owned(),
                    format!("--hostname=agent-{number}"),
                    format!("--work-dir={}", path(&format!("agent-{number}"))),
                    format!("--resources=cpus:8;mem:4096;disk:10240;ports:[{first}-{}]", first + 499),
                    "--executor-shutdown-grace-period=35secs".to_owned(),
                ];
                role(folder.path(), "mesos-agent", &words)
            })
            .collect();
        let _servers = vec![controllers, master, apiserver];
        Self { folder, mesos_port, kubectl, agents, _servers, started: 0, _turn: turn }
    }

    fn scheduler(&mut self) -> Scheduler {
        self.started += 1;
        let port = free_port();
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let kubeconfig = path("apiserver/admin.kubeconfig");
        let mut words = vec![
            "--leader-elect".to_owned(),
            "--leader-elect-lease-duration=8s".to_owned(),
            "--leader-elect-renew-deadline=6s".to_owned(),
            "--leader-elect-retry-period=1s".to_owned(),
            format!("--kubeconfig={kubeconfig}"),
            format!("--mesos-master=127.0.0.1:{}", self.mesos_port),
            format!("--port={port}"),
            format!("--agent-km-path={}", km().display()),
            format!("--agent-kubeconfig={kubeconfig}"),
            format!("--static-pods-config={}", path("static-pods")),
        ];
        for word in [
            format!("--root-dir={}", path("kubelet")),
            format!("--image-root={}", path("images")),
            "--port=0".to_owned(),
        ] {
            words.push(format!("--minion-flag=--executor-arg={word}"));
        }
        let mut command = Command::new(km());
        command.arg("scheduler").args(words);
        let log = self.folder.path().join(format!("scheduler-{}.log", self.started));
        Scheduler { process: Process::start(&mut command, &log), port }
    }

    fn containers(&self) -> BTreeMap<String, String> {
        let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        hello::pods(&self.kubectl)
            .iter()
            .map(|pod| (text(pod, "/metadata/name"), text(pod, "/status/containerStatuses/0/containerID")))
            .collect()
    }

    /// Every node whose executor runs has the static pod, and its log can be read.
    fn static_pods_run(&self) {
        let node = |pod: &Value| pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let nodes: BTreeSet<String> = hello::pods(&self.kubectl).iter().map(node).collect();
        for node in nodes {
            let pod = format!("beside-{node}");
            eventually(&format!("{pod} runs and can be read"), || {
                let log = self.kubectl.try_run(&format!("logs {pod}"))?;
                let phase = self.kubectl.try_run(&format!("get pod {pod} -o jsonpath={{.status.phase}}"))?;
                if (log.as_str(), phase.as_str()) == ("here\n", "Running") {
                    Ok(())
                } else {
                    Err(format!("{phase} {log}"))
                }
            });
        }
    }

    /// No pod of all that ever were had two tasks that ran: a task's id names its pod by all but the first part.
    fn no_pod_ran_twice(&self) {
        let tasks = hello::get(&format!("http://127.0.0.1:{}/master/tasks?limit=10000", self.mesos_port)).unwrap();
        let tasks: Value = serde_json::from_str(&tasks).unwrap();
        let mut ran = BTreeSet::new();
        for task in tasks["tasks"].as_array().into_iter().flatten() {
            let statuses = task["statuses"].as_array().into_iter().flatten();
            if statuses.clone().any(|status| status["state"] == "TASK_RUNNING") {
                let id = task["id"].as_str().unwrap();
                let (_, pod) = id.split_once('-').unwrap();
                assert!(ran.insert(pod.to_owned()), "the pod of {id} ran twice");
            }
        }
        assert!(ran.len() >= 4, "{ran:?}");
    }

    fn strike(&mut self, schedulers: &mut [Scheduler]) {
        for scheduler in schedulers {
            let status = scheduler.process.stop(Signal::SIGTERM);
            assert!(status.success(), "{}", scheduler.process.output());
        }
        for agent in &self.agents {
            agent.signal(Signal::SIGTERM);
        }
        for agent in &mut self.agents {
            let status = agent.stop(Signal::SIGTERM);
            assert!(status.success(), "{}", agent.output());
        }
        let kubelet = self.folder.path().join("kubelet");
        eventually("nothing is left behind", || match leftovers(&kubelet) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            if agent.ended().is_none() {
                agent.stop(Signal::SIGTERM);
            }
        }
        if std::thread::panicking() {
            for number in 1..=self.started {
                let log = self.folder.path().join(format!("scheduler-{number}.log"));
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(40).collect();
                eprintln!("--- end of scheduler-{number}.log ---");
                tail.iter().rev().for_each(|line| eprintln!("{line}"));
            }
        }
    }
}

fn role(folder: &Path, name: &str, words: &[String]) -> Process {
    let mut command = Command::new(km());
    command.arg(name).args(words);
    let number = words.iter().find_map(|word| word.strip_prefix("--hostname=")).unwrap_or_default();
    Process::start(&mut command, &folder.join(format!("{name}{number}.log")))
}

/// A pod that every executor runs.
const BESIDE: &str = "apiVersion: v1
kind: Pod
metadata: {name: beside}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: localhost/km/busybox:v1
    command: [sh, -c, 'echo here; sleep 100000']
    resources: {requests: {cpu: 10m, memory: 32Mi}}
";

#[test]
fn pods_outlive_a_killed_leader_and_a_hand_over_and_none_runs_twice() {
    let mut stage = Stage::set();
    let kubectl = stage.kubectl.clone();
    let static_pods = stage.folder.path().join("static-pods");
    std::fs::create_dir(&static_pods).unwrap();
    std::fs::write(static_pods.join("beside.yaml"), BESIDE).unwrap();
    let mut first = stage.scheduler();
    first.becomes("leader");
    let second = stage.scheduler();
    second.becomes("standby, led by ");

    kubectl.run(&format!("apply -f {}", example("hello.yaml")));
    kubectl.run("rollout status deployment hello --timeout=120s");
    let before = stage.containers();
    assert_eq!(before.len(), 4);
    stage.static_pods_run();

    // Under load: the leader dies while it launches.
    kubectl.run("scale deployment hello --replicas=12");
    eventually("launches are under way", || match stage.containers().len() {
        count if count > 4 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    first.process.stop(Signal::SIGKILL);
    second.becomes("leader");
    kubectl.run("rollout status deployment hello --timeout=120s");
    let after = stage.containers();
    assert!(before.iter().all(|pod| after.get(pod.0) == Some(pod.1)), "{before:?}\n{after:?}");
    hello::invariant_live_tasks_are_bound_pods(&stage.mesos_port, &kubectl);
    stage.no_pod_ran_twice();

    // Asked to, the leader lets the other one lead and stands by itself.
    let third = stage.scheduler();
    third.becomes("standby, led by ");
    second.process.signal(Signal::SIGUSR1);
    third.becomes("leader");
    second.becomes("standby, led by ");
    assert_eq!(stage.containers(), after);
    kubectl.run("scale deployment hello --replicas=14");
    kubectl.run("rollout status deployment hello --timeout=120s");
    hello::invariant_live_tasks_are_bound_pods(&stage.mesos_port, &kubectl);
    stage.no_pod_ran_twice();

    kubectl.run("delete deployment hello");
    eventually("no pod is left", || match stage.containers().len() {
        0 => Ok(()),
        count => Err(format!("{count} pods")),
    });
    stage.strike(&mut [second, third]);
}
