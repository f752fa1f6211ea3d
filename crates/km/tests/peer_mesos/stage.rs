//! The stage of the peer test: a real Mesos, and our roles as processes beside it.

use std::{
    collections::BTreeSet,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use km_testkit::{Kubectl, Process, eventually, free_port, leftovers};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

const AGENTS: u16 = 2;

/// Everything that runs during the test. Dropping it strikes the stage.
pub struct Stage {
    folder: TempDir,
    mesos: PathBuf,
    mesos_port: u16,
    scheduler: Option<Process>,
    _others: Vec<Process>,
    pub kubectl: Kubectl,
}

impl Stage {
    /// Starts Mesos, the API server, the controllers and the scheduler, and waits until both agents are nodes.
    pub fn set() -> Self {
        let folder = tempfile::Builder::new().prefix("km-peer-").tempdir().unwrap();
        let mesos =
            PathBuf::from(std::env::var_os("KM_TEST_MESOS").expect("KM_TEST_MESOS is not set: run `cargo xtask test`"));
        let mesos_port = free_ports(1 + AGENTS);
        let data = folder.path().join("apiserver");
        let api_port = free_port();
        let apiserver = role(
            folder.path(),
            "apiserver",
            &[&format!("--data-dir={}", data.display()), &format!("--secure-port={api_port}")],
        );
        let kubeconfig = data.join("admin.kubeconfig");
        let kubectl = Kubectl::new(&kubeconfig);
        eventually("the API server is ready", || kubectl.try_run("get --raw /readyz"));
        let controllers =
            role(folder.path(), "controller-manager", &[&format!("--kubeconfig={}", kubeconfig.display()), "--port=0"]);
        let mut stage =
            Self { folder, mesos, mesos_port, scheduler: None, _others: vec![controllers, apiserver], kubectl };
        let agent_resources = "cpus:4;mem:4096;disk:10240;ports:[31{n}00-31{n}99]";
        stage.mesos(&format!(
            "up --agents {AGENTS} --port {mesos_port} --resources {agent_resources} --agent-flag hostname=agent-{{n}} \
             --master-flag agent_ping_timeout=1secs --master-flag max_agent_ping_timeouts=30"
        ));
        stage.start_scheduler();
        stage.agents_are_back();
        stage
    }

    /// Runs the script that controls the real Mesos.
    #[track_caller]
    pub fn mesos(&self, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let script =
            std::env::var_os("KM_TEST_REAL_MESOS").expect("KM_TEST_REAL_MESOS is not set: run `cargo xtask test`");
        let mut command = Command::new(script);
        command.arg(verb).arg(&self.mesos).args(rest.split_whitespace()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "real-mesos {line}: {}{}", text(&output.stdout), text(&output.stderr));
    }

    fn start_scheduler(&mut self) {
        let kubeconfig = self.folder.path().join("apiserver/admin.kubeconfig");
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let words = [
            flag("kubeconfig", &kubeconfig.display()),
            flag("executor-kubeconfig", &kubeconfig.display()),
            flag("mesos-master", &format!("127.0.0.1:{}", self.mesos_port)),
            "--port=0".to_owned(),
            flag("minion-flag", &format!("--executor-arg=--root-dir={}", self.folder.path().join("kubelet").display())),
            flag(
                "minion-flag",
                &format!("--executor-arg=--image-root={}", self.folder.path().join("images").display()),
            ),
            flag("minion-flag", &"--executor-arg=--port=0"),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.scheduler = Some(role(self.folder.path(), "scheduler", &words));
    }

    /// Ends the scheduler as a crash does and starts another.
    pub fn restart_scheduler(&mut self) {
        if let Some(mut scheduler) = self.scheduler.take() {
            scheduler.stop(Signal::SIGKILL);
        }
        self.start_scheduler();
        let port = self.mesos_port;
        eventually("the framework is connected again", || match get(&format!("http://127.0.0.1:{port}/frameworks"))? {
            text if text.contains("\"connected\":true") => Ok(()),
            text => Err(text),
        });
    }

    /// Waits until all agents are active in Mesos and ready nodes in Kubernetes, and the framework is connected.
    pub fn agents_are_back(&self) {
        eventually("all agents are active", || {
            let slaves = json(&format!("http://127.0.0.1:{}/slaves", self.mesos_port))?;
            let active = slaves["slaves"].as_array().into_iter().flatten().filter(|one| one["active"] == true).count();
            let frameworks = json(&format!("http://127.0.0.1:{}/frameworks", self.mesos_port))?;
            let connected =
                frameworks["frameworks"].as_array().into_iter().flatten().any(|one| one["connected"] == true);
            if active == usize::from(AGENTS) && connected {
                Ok(())
            } else {
                Err(format!("{active} active, framework {connected}"))
            }
        });
        eventually("all agents are ready nodes", || {
            let nodes = self.kubectl.try_run("get nodes")?;
            if nodes.matches(" Ready").count() == usize::from(AGENTS) { Ok(()) } else { Err(nodes) }
        });
    }

    /// Invariant 5 of the design, over Mesos' own tasks and the API's pods.
    pub fn live_tasks_are_bound_pods(&self) {
        eventually("live tasks are the bound pods", || {
            let tasks = json(&format!("http://127.0.0.1:{}/master/tasks?limit=1000", self.mesos_port))?;
            let live = ["TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"];
            let is_live = |task: &&Value| task["state"].as_str().is_some_and(|state| live.contains(&state));
            let list = tasks["tasks"].as_array().cloned().unwrap_or_default();
            let tasks: BTreeSet<&str> = list.iter().filter(is_live).filter_map(|task| task["id"].as_str()).collect();
            let pods = self.kubectl.json("get pods -A")?;
            let bound = |pod: &&Value| {
                let phase = pod.pointer("/status/phase").and_then(Value::as_str);
                pod.pointer("/spec/nodeName").is_some() && !matches!(phase, Some("Succeeded" | "Failed"))
            };
            let task_of = |pod: &'_ Value| {
                pod.pointer("/metadata/annotations/k8s.mesosphere.io~1taskId")
                    .and_then(Value::as_str)
                    .unwrap_or("none")
                    .to_owned()
            };
            let pods: BTreeSet<String> =
                pods["items"].as_array().into_iter().flatten().filter(bound).map(task_of).collect();
            let pods: BTreeSet<&str> = pods.iter().map(String::as_str).collect();
            if tasks == pods { Ok(()) } else { Err(format!("tasks {tasks:?}, pods {pods:?}")) }
        });
    }

    /// Ends everything and demands that nothing stays behind.
    pub fn strike(&mut self) {
        let master = self.mesos_port;
        let framework = json(&format!("http://127.0.0.1:{master}/frameworks")).unwrap();
        let id = framework["frameworks"][0]["id"].as_str().expect("the framework is known").to_owned();
        if let Some(mut scheduler) = self.scheduler.take() {
            scheduler.stop(Signal::SIGTERM);
        }
        // The framework outlives its scheduler on purpose; its operator tears it down.
        let teardown = format!("http://127.0.0.1:{master}/master/teardown");
        let output = Command::new("curl")
            .args(["-sS", "--fail", "-d", &format!("frameworkId={id}"), &teardown])
            .output()
            .unwrap();
        assert!(output.status.success(), "teardown: {}", text(&output.stderr));
        let kubelet = self.folder.path().join("kubelet");
        eventually("the executors have ended and left nothing", || {
            let left = leftovers(&kubelet);
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["scheduler.log", "apiserver.log", "controller-manager.log"] {
                let text = std::fs::read_to_string(self.folder.path().join(log)).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(60).collect();
                eprintln!("--- end of {log} ---");
                tail.iter().rev().for_each(|line| eprintln!("{line}"));
            }
        }
        self.scheduler = None;
        let script = std::env::var_os("KM_TEST_REAL_MESOS").unwrap_or_default();
        // A stage that was never set up has nothing to take down.
        let _best_effort = Command::new(script).arg("down").arg(&self.mesos).output();
    }
}

/// One of our roles as a process, its log in `folder`.
fn role(folder: &Path, name: &str, words: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_km"));
    command.arg(name).args(words);
    Process::start(&mut command, &folder.join(format!("{name}.log")))
}

/// The first of some ports in a row that are all free at this moment.
fn free_ports(count: u16) -> u16 {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    (0..100)
        .map(|_| free_port())
        .find(|first| (0..count).all(|more| first.checked_add(more).is_some_and(free)))
        .expect("free ports in a row")
}

pub fn get(url: &str) -> Result<String, String> {
    let output = Command::new("curl").args(["-sS", "--fail", "--max-time", "3", url]).output();
    let output = output.map_err(|error| format!("cannot run curl: {error}"))?;
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn json(url: &str) -> Result<Value, String> {
    serde_json::from_str(&get(url)?).map_err(|error| format!("{url}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}
