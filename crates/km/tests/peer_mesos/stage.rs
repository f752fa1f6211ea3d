//! The stage of the peer test: a real Mesos, and our roles as processes beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use km_testkit::{Kubectl, Process, eventually, free_port, free_ports, leftovers};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::{operator::Operator, setup::Setup};

/// The real Mesos keeps its state in one folder, and a proxy programs the machine's one network.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Everything that runs during the test. Dropping it strikes the stage.
pub struct Stage {
    setup: Setup,
    folder: TempDir,
    mesos: PathBuf,
    scheduler: Option<Process>,
    scheduler_starts: u32,
    scheduler_port: u16,
    _others: Vec<Process>,
    pub operator: Operator,
    pub kubectl: Kubectl,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// Starts everything, and waits until all agents are nodes.
    pub fn set(setup: Setup) -> Self {
        let mut stage = Self::set_without_scheduler(setup);
        stage.start_scheduler();
        stage.agents_are_back();
        stage
    }

    /// Starts Mesos, the API server and the controllers.
    pub fn set_without_scheduler(setup: Setup) -> Self {
        // A stage that failed was struck all the same.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("km-peer-").tempdir().unwrap();
        let mesos =
            PathBuf::from(std::env::var_os("KM_TEST_MESOS").expect("KM_TEST_MESOS is not set: run `cargo xtask test`"));
        let operator = Operator { port: free_ports(1 + setup.agents) };
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
        let stage = Self {
            setup,
            folder,
            mesos,
            scheduler: None,
            scheduler_starts: 0,
            scheduler_port: free_port(),
            _others: vec![controllers, apiserver],
            operator,
            kubectl,
            _turn: turn,
        };
        let Setup { agents, resources, master_flags, .. } = &stage.setup;
        let flags: Vec<String> = master_flags.iter().map(|flag| format!(" --master-flag {flag}")).collect();
        stage.mesos(&format!(
            "up --agents {agents} --port {} --resources {resources} --agent-flag hostname=agent-{{n}}{}",
            stage.operator.port,
            flags.concat()
        ));
        stage
    }

    /// A file of the stage's own.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
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

    pub fn start_scheduler(&mut self) {
        let words = self.scheduler_words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.scheduler_starts += 1;
        let log = format!("scheduler-{}", self.scheduler_starts);
        self.scheduler = Some(role_with_log(self.folder.path(), "scheduler", &log, &words));
    }

    fn scheduler_words(&self) -> Vec<String> {
        let folder = self.folder.path();
        let kubeconfig = folder.join("apiserver/admin.kubeconfig");
        let flag = |name: &str, value: &dyn std::fmt::Display| format!("--{name}={value}");
        let executor_arg = |argument: String| flag("minion-flag", &format!("--executor-arg={argument}"));
        let mut words = vec![
            flag("kubeconfig", &kubeconfig.display()),
            flag("executor-kubeconfig", &kubeconfig.display()),
            flag("mesos-master", &format!("127.0.0.1:{}", self.operator.port)),
            // The same after a restart: agents fetch what they run from there.
            flag("port", &self.scheduler_port),
            executor_arg(format!("--root-dir={}", folder.join("kubelet").display())),
            executor_arg(format!("--image-root={}", folder.join("images").display())),
            executor_arg("--port=0".to_owned()),
        ];
        words.extend(self.setup.scheduler_flags.iter().cloned());
        words
    }

    /// What the newest scheduler has logged.
    pub fn scheduler_log(&self) -> String {
        self.scheduler.as_ref().map(Process::output).unwrap_or_default()
    }

    /// Has the scheduler read its configuration file again.
    pub fn hang_up_scheduler(&self) {
        let scheduler = self.scheduler.as_ref().expect("the scheduler runs");
        scheduler.signal(Signal::SIGHUP);
    }

    /// Ends the scheduler as a crash does.
    pub fn crash_scheduler(&mut self) {
        if let Some(mut scheduler) = self.scheduler.take() {
            scheduler.stop(Signal::SIGKILL);
        }
    }

    /// Flags of the schedulers that are started from now on.
    pub fn add_scheduler_flags(&mut self, flags: &[String]) {
        self.setup.scheduler_flags.extend(flags.iter().cloned());
    }

    /// Ends the scheduler as a crash does and starts another.
    pub fn restart_scheduler(&mut self) {
        self.crash_scheduler();
        self.start_scheduler();
        eventually("the framework is connected again", || match self.operator.framework()? {
            framework if framework["connected"] == true => Ok(()),
            framework => Err(framework.to_string()),
        });
    }

    /// Waits until all agents are active in Mesos and ready nodes in Kubernetes, and the framework is connected.
    pub fn agents_are_back(&self) {
        let agents = usize::from(self.setup.agents);
        eventually("all agents are active", || {
            let active = self.operator.active_agents()?;
            let connected = self.operator.framework()?["connected"] == true;
            if active.len() == agents && connected {
                Ok(())
            } else {
                Err(format!("active {active:?}, framework connected: {connected}"))
            }
        });
        eventually("all agents are ready nodes", || {
            let nodes = self.kubectl.try_run("get nodes")?;
            if nodes.matches(" Ready").count() == agents { Ok(()) } else { Err(nodes) }
        });
    }

    /// Invariant 5 of the design, over Mesos' own tasks and the API's pods.
    pub fn live_tasks_are_bound_pods(&self) {
        eventually("live tasks are the bound pods", || {
            let tasks: BTreeSet<String> = self.operator.live_tasks()?.into_keys().collect();
            let pods: BTreeSet<String> = self.bound_pods()?.into_keys().collect();
            if tasks == pods { Ok(()) } else { Err(format!("tasks {tasks:?}, pods {pods:?}")) }
        });
        self.agents_account_for_their_tasks();
    }

    /// The pods that are bound and have not ended, by the ids of their tasks.
    pub fn bound_pods(&self) -> Result<BTreeMap<String, Value>, String> {
        let bound = |pod: &Value| {
            let phase = pod.pointer("/status/phase").and_then(Value::as_str);
            pod.pointer("/spec/nodeName").is_some() && !matches!(phase, Some("Succeeded" | "Failed"))
        };
        let task_of = |pod: &Value| {
            let annotation = pod.pointer("/metadata/annotations/k8s.mesosphere.io~1taskId");
            annotation.and_then(Value::as_str).unwrap_or("none").to_owned()
        };
        let pods = self.kubectl.json("get pods -A")?;
        let list = pods["items"].as_array().cloned().unwrap_or_default();
        Ok(list.into_iter().filter(bound).map(|pod| (task_of(&pod), pod)).collect())
    }

    /// The other half of invariant 5: what agents have in use is what their tasks and executors have been given.
    fn agents_account_for_their_tasks(&self) {
        eventually("what agents use is what tasks and executors were given", || {
            let state = self.operator.json("/state")?;
            let mut given: BTreeMap<&str, i64> = BTreeMap::new();
            let frameworks = state["frameworks"].as_array().into_iter().flatten();
            for framework in frameworks {
                let tasks = framework["tasks"].as_array().into_iter().flatten();
                for one in tasks.chain(framework["executors"].as_array().into_iter().flatten()) {
                    *given.entry(one["slave_id"].as_str().unwrap_or_default()).or_default() += millis(one, "resources");
                }
            }
            for agent in state["slaves"].as_array().into_iter().flatten() {
                let used = millis(agent, "used_resources");
                let id = agent["id"].as_str().unwrap_or_default();
                let given = given.get(id).copied().unwrap_or(0);
                if used != given {
                    return Err(format!("{}: {used} mCPU in use, {given} given", agent["hostname"]));
                }
            }
            Ok(())
        });
    }

    /// Ends everything and demands that nothing stays behind.
    pub fn strike(&mut self) {
        let master = self.operator.port;
        let framework = self.operator.framework().unwrap();
        let id = framework["id"].as_str().expect("the framework is known").to_owned();
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
            let scheduler = format!("scheduler-{}.log", self.scheduler_starts);
            for log in [scheduler.as_str(), "apiserver.log", "controller-manager.log"] {
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

/// Thousandths of a CPU in a field of the master's JSON.
fn millis(holder: &Value, field: &str) -> i64 {
    (holder[field]["cpus"].as_f64().unwrap_or(0.0) * 1000.0).round() as i64
}

/// One of our roles as a process, its log in `folder`.
fn role(folder: &Path, name: &str, words: &[&str]) -> Process {
    role_with_log(folder, name, name, words)
}

fn role_with_log(folder: &Path, name: &str, log: &str, words: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_km"));
    command.arg(name).args(words);
    Process::start(&mut command, &folder.join(format!("{log}.log")))
}

pub fn get(url: &str) -> Result<String, String> {
    let output = Command::new("curl").args(["-sS", "--fail", "--max-time", "3", url]).output();
    let output = output.map_err(|error| format!("cannot run curl: {error}"))?;
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}
