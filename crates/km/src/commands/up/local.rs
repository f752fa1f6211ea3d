//! The roles of a local cluster, in the order in which they start, all in this process. Each finds the others by URL and
//! kubeconfig, as on a real cluster; only the agents' children are processes of their own.

use std::{path::Path, time::Duration};

use anyhow::{Context, anyhow};
use futures::{StreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Node;
use km_observe::Started;
use kube::{Api, Client, api::ListParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Flags, ports};
use crate::{
    cluster::{Layout, State, kubeconfig},
    exit::{Exit, Failed},
    progress::Progress,
    role,
};

/// How long a stopping agent may take to end its executors and their pods.
const STOP_PATIENCE: Duration = Duration::from_secs(45);

/// A local cluster in this process.
pub struct Local {
    flags: Flags,
    layout: Layout,
    /// What decides and writes: stopped first, so that nobody reacts to the pods' end.
    deciders: Vec<Role>,
    /// What runs pods.
    agents: Vec<Role>,
    /// What the others need to their last moment.
    servers: Vec<Role>,
}

struct Role {
    started: Started,
    stop: CancellationToken,
}

impl Local {
    pub fn new(flags: &Flags, layout: Layout) -> Self {
        Self { flags: flags.clone(), layout, deciders: Vec::new(), agents: Vec::new(), servers: Vec::new() }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Starts everything and waits until each agent is a ready Node.
    pub async fn start(&mut self, progress: &Progress, deadline: Instant) -> Result<(), Failed> {
        let state = ports::choose(&self.flags.ports, self.flags.agents, State::load(&self.layout.state())?)?;
        state.save(&self.layout.state())?;
        progress.step("images", self.load_images(), |references: &Vec<String>| references.join(", ")).await?;
        progress.step("API server", self.start_apiserver(&state), |url| url.clone()).await?;
        progress.step("controllers", self.start_controllers(&state), |()| String::new()).await?;
        progress.step("Mesos master", self.start_master(&state), |url| url.clone()).await?;
        progress.step("Mesos agents", self.start_agents(&state), |count| count.to_string()).await?;
        progress.step("scheduler", self.start_scheduler(&state), |()| String::new()).await?;
        progress.step("nodes ready", self.nodes_ready(deadline), |names| names.join(", ")).await?;
        Ok(())
    }

    /// Ends when a role ends that nobody asked to: the cluster cannot go on.
    pub async fn failure(&mut self) -> Failed {
        let roles = self.deciders.iter_mut().chain(&mut self.agents).chain(&mut self.servers);
        let mut ends: FuturesUnordered<_> =
            roles.map(|role| async { (role.started.name, (&mut role.started.task).await) }).collect();
        match ends.next().await {
            Some((name, Ok(Err(error)))) => error.context(format!("the {name} failed")).into(),
            Some((name, Ok(Ok(())))) => anyhow!("the {name} ended by itself").into(),
            Some((name, Err(panic))) => anyhow!("the {name} ended abnormally: {panic}").into(),
            None => anyhow!("nothing was started").into(),
        }
    }

    /// Stops everything: who decides first, then the agents with their pods, then the servers.
    pub async fn stop(&mut self) -> Result<(), Failed> {
        let mut problems = Vec::new();
        for roles in [&mut self.deciders, &mut self.agents, &mut self.servers] {
            for role in roles.iter() {
                role.stop.cancel();
            }
            for role in roles.drain(..) {
                let name = role.started.name;
                if role.started.task.is_finished() {
                    continue;
                }
                match tokio::time::timeout(STOP_PATIENCE, role.started.join()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => problems.push(format!("{name}: {error:#}")),
                    Err(_) => problems.push(format!("{name} did not stop within {} s", STOP_PATIENCE.as_secs())),
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(anyhow!("{}", problems.join("; ")).into()) }
    }

    /// A client with the administrator's rights.
    pub async fn client(&self) -> Result<Client, Failed> {
        Ok(crate::commands::status::client(&self.layout).await?)
    }

    pub fn write_kubeconfig(&self, file: &Path) -> Result<(), Failed> {
        let ours = kubeconfig::read(&self.layout.kubeconfig("admin"))?.context("the cluster wrote no kubeconfig")?;
        Ok(kubeconfig::merge_into(file, "km", &ours)?)
    }

    async fn load_images(&self) -> Result<Vec<String>, Failed> {
        let images = self.layout.images();
        let loaded = tokio::task::spawn_blocking(move || km_runtime::builtin::ensure(&images)).await;
        Ok(loaded.context("loading the built-in images was cut off")?.context("cannot load the built-in images")?)
    }

    async fn start_apiserver(&mut self, state: &State) -> Result<String, Failed> {
        let data = self.layout.apiserver();
        let flags =
            role::flags([format!("--data-dir={}", data.display()), format!("--secure-port={}", state.api_port)])?;
        let stop = CancellationToken::new();
        let started = km_apiserver::start(flags, stop.clone()).await.context("cannot start the API server")?;
        let url = format!("https://127.0.0.1:{}", started.address.port());
        self.servers.push(Role { started, stop });
        let pki =
            km_apiserver::pki::Pki::ensure(&data.join("pki")).context("cannot read the cluster's certificates")?;
        for (user, groups) in USERS {
            let text = pki.kubeconfig(user, groups, &url).context("cannot make a client certificate")?;
            let path = self.layout.kubeconfig(user.rsplit(':').next().unwrap_or(user));
            crate::cluster::write_atomically(&path, text.as_bytes(), 0o600)?;
        }
        Ok(url)
    }

    async fn start_controllers(&mut self, state: &State) -> Result<(), Failed> {
        let flags = role::flags([
            format!("--kubeconfig={}", self.layout.kubeconfig("kube-controller-manager").display()),
            format!("--port={}", state.controller_manager_port),
        ])?;
        let stop = CancellationToken::new();
        let started = km_controllers::start(flags, stop.clone()).await.context("cannot start the controllers")?;
        self.deciders.push(Role { started, stop });
        Ok(())
    }

    async fn start_master(&mut self, state: &State) -> Result<String, Failed> {
        let flags = role::flags([
            format!("--port={}", state.mesos_port),
            format!("--work-dir={}", self.layout.master().display()),
            // What came back is offered again this soon. On few agents a pass costs next to nothing.
            "--allocation-interval=100ms".to_owned(),
        ])?;
        let stop = CancellationToken::new();
        let started = km_mesos::master::start(flags, stop.clone()).await.context("cannot start the Mesos master")?;
        let url = format!("http://{}", started.address);
        self.servers.push(Role { started, stop });
        Ok(url)
    }

    async fn start_agents(&mut self, state: &State) -> Result<u16, Failed> {
        for number in 1..=self.flags.agents {
            let resources = resources(number, self.flags.agents, self.flags.agent_resources.as_deref())?;
            let flags = role::flags([
                format!("--master=127.0.0.1:{}", state.mesos_port),
                format!("--port={}", state.agent_ports[usize::from(number) - 1]),
                format!("--hostname={}", host_name(number)),
                format!("--work-dir={}", self.layout.agent(number).display()),
                format!("--resources={resources}"),
                // Another number of agents, or another machine, changes what each of them has.
                "--reconfiguration-policy=any".to_owned(),
                // A pod may take its whole grace (30 s by default) to end.
                "--executor-shutdown-grace-period=35secs".to_owned(),
            ])?;
            let stop = CancellationToken::new();
            let started = km_mesos::agent::start(flags, stop.clone())
                .await
                .with_context(|| format!("cannot start Mesos agent {number}"))?;
            self.agents.push(Role { started, stop });
        }
        Ok(self.flags.agents)
    }

    async fn start_scheduler(&mut self, state: &State) -> Result<(), Failed> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let executor = [
            format!("--root-dir={}", self.layout.kubelet().display()),
            format!("--image-root={}", self.layout.images().display()),
            format!("--runtime={}", self.flags.runtime),
            "--port=0".to_owned(),
        ];
        let mut words = vec![
            format!("--kubeconfig={}", self.layout.kubeconfig("kube-scheduler").display()),
            format!("--mesos-master=127.0.0.1:{}", state.mesos_port),
            format!("--port={}", state.scheduler_port),
            format!("--agent-km-path={}", program.display()),
            format!("--agent-kubeconfig={}", self.layout.kubeconfig("node").display()),
        ];
        words.extend(executor.iter().map(|word| format!("--minion-flag=--executor-arg={word}")));
        let stop = CancellationToken::new();
        let started =
            km_scheduler::start(role::flags(words)?, stop.clone()).await.context("cannot start the scheduler")?;
        self.deciders.push(Role { started, stop });
        Ok(())
    }

    async fn nodes_ready(&self, deadline: Instant) -> Result<Vec<String>, Failed> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        loop {
            let listed = nodes.list(&ListParams::default()).await.context("cannot list nodes")?;
            let ready = ready_of_this_run(listed.items, self.flags.agents);
            if ready.len() == usize::from(self.flags.agents) {
                return Ok(ready);
            }
            if Instant::now() >= deadline {
                let error = anyhow!("only {} of {} agents became ready nodes in time", ready.len(), self.flags.agents);
                return Err(Failed::new(Exit::Failure, error)
                    .way_out("KM_LOG=info shows what the roles do; --wait gives them longer"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The identities of the components, as certificates of the cluster's authority.
const USERS: [(&str, &[&str]); 4] = [
    ("admin", &["system:masters"]),
    ("system:kube-controller-manager", &["system:masters"]),
    ("system:kube-scheduler", &["system:masters"]),
    ("system:node", &["system:nodes"]),
];

pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|list| list.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
}

/// The names of the ready nodes of so many agents. Nodes of agents that only an earlier run had stay until the master gives
/// those up, and don't count.
fn ready_of_this_run(nodes: Vec<Node>, agents: u16) -> Vec<String> {
    let ours: Vec<String> = (1..=agents).map(host_name).collect();
    let names = nodes.into_iter().filter(is_ready).filter_map(|node| node.metadata.name);
    names.filter(|name| ours.contains(name)).collect()
}

/// What the agent of this number, from 1 up, calls itself; its node has that name.
fn host_name(number: u16) -> String {
    format!("agent-{number}")
}

/// One agent's resources: every agent has all CPUs (containers share them by weight), its share of three quarters of the
/// memory, and 500 ports of its own, since all agents share this host's ports.
fn resources(number: u16, agents: u16, given: Option<&str>) -> Result<String, Failed> {
    let first = 31_000 + (number - 1) * 500;
    let ports = format!("ports:[{first}-{}]", first + 499);
    if let Some(given) = given {
        return Ok(format!("{given};{ports}"));
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from).max(4);
    let memory = total_memory_mib().context("cannot read /proc/meminfo")?;
    let share = (memory * 3 / 4 / u64::from(agents)).max(256);
    Ok(format!("cpus:{cpus};mem:{share};disk:{};{ports}", 10_240))
}

fn total_memory_mib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib / 1024)
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn only_ready_nodes_of_this_runs_agents_count() {
        let node = |name: &str, ready: &str| {
            let condition = json!({"type": "Ready", "status": ready});
            from_value(json!({"metadata": {"name": name}, "status": {"conditions": [condition]}})).unwrap()
        };
        let nodes = vec![node("agent-3", "True"), node("agent-1", "False"), node("agent-2", "True"), node("x", "True")];
        for (agents, ready) in [(1, vec![]), (2, vec!["agent-2"]), (3, vec!["agent-3", "agent-2"])] {
            assert_eq!(ready_of_this_run(nodes.clone(), agents), ready, "{agents} agents");
        }
    }

    #[test]
    fn agents_never_share_a_port() {
        let mut last = 30_999;
        for number in 1..=64 {
            let text = resources(number, 64, Some("cpus:1;mem:512")).unwrap();
            let range = text.split("ports:[").nth(1).unwrap().trim_end_matches(']');
            let (first, end) = range.split_once('-').unwrap();
            assert_eq!(first.parse::<u32>().unwrap(), last + 1);
            last = end.parse().unwrap();
            assert!(last < 65_536);
        }
    }
}
