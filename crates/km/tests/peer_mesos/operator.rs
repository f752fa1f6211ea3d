//! The operator's side of a real Mesos: what it says, and what it is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use km_testkit::eventually;
use serde_json::{Value, json};

use crate::stage::{get, text};

/// States in which a task still may run.
const LIVE: [&str; 5] = ["TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING", "TASK_UNREACHABLE"];

/// A master's HTTP endpoints.
#[derive(Clone, Copy)]
pub struct Operator {
    pub port: u16,
}

impl Operator {
    /// The JSON below a path of the master.
    pub fn json(self, path: &str) -> Result<Value, String> {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        serde_json::from_str(&get(&url)?).map_err(|error| format!("{url}: {error}"))
    }

    /// Sends an operator call that must succeed, and answers what the master says.
    #[track_caller]
    pub fn call(self, call: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}/api/v1", self.port);
        let words = ["-sS", "--fail-with-body", "--max-time", "30", "-H", "Content-Type: application/json", "-d"];
        let output = Command::new("curl").args(words).arg(call.to_string()).arg(&url).output().unwrap();
        assert!(output.status.success(), "{call}: {}{}", text(&output.stdout), text(&output.stderr));
        // Calls that change something have empty answers.
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Agents as the master lists them, by hostname.
    pub fn agents(self) -> Result<BTreeMap<String, Value>, String> {
        let slaves = self.json("/slaves")?;
        let list = slaves["slaves"].as_array().cloned().unwrap_or_default();
        Ok(list.into_iter().map(|agent| (agent["hostname"].as_str().unwrap_or_default().to_owned(), agent)).collect())
    }

    /// The id of the agent with that hostname.
    #[track_caller]
    pub fn agent_id(self, hostname: &str) -> String {
        let agents = self.agents().unwrap();
        agents[hostname]["id"].as_str().unwrap().to_owned()
    }

    /// Names of the agents that are there and may be given work.
    pub fn active_agents(self) -> Result<BTreeSet<String>, String> {
        Ok(self.agents()?.into_iter().filter(|(_, agent)| agent["active"] == true).map(|(name, _)| name).collect())
    }

    /// A call about one agent, such as `DRAIN_AGENT`.
    #[track_caller]
    pub fn tell_agent(self, kind: &str, hostname: &str) {
        self.call(&json!({ "type": kind, kind.to_lowercase(): { "agent_id": { "value": self.agent_id(hostname) } } }));
    }

    /// Waits until the master has given the agent up, or has it back.
    #[track_caller]
    pub fn wait_for(self, hostname: &str, there: bool) {
        eventually(&format!("{hostname} is {}", if there { "back" } else { "away" }), || {
            let active = self.active_agents()?;
            if active.contains(hostname) == there { Ok(()) } else { Err(format!("active: {active:?}")) }
        });
    }

    /// Our framework, as the master knows it.
    pub fn framework(self) -> Result<Value, String> {
        let frameworks = self.json("/frameworks")?;
        let ours = frameworks["frameworks"].as_array().and_then(|list| list.first()).cloned();
        ours.ok_or_else(|| "no framework".to_owned())
    }

    /// How many executors of our framework an agent has.
    pub fn executors_on(self, hostname: &str) -> Result<usize, String> {
        let id = self.agent_id(hostname);
        let state = self.json("/state")?;
        let frameworks = state["frameworks"].as_array().into_iter().flatten();
        let executors = frameworks.flat_map(|framework| framework["executors"].as_array().into_iter().flatten());
        Ok(executors.filter(|executor| executor["slave_id"] == id.as_str()).count())
    }

    /// The ids of all tasks that run or may run, with the agents they are on.
    pub fn live_tasks(self) -> Result<BTreeMap<String, Value>, String> {
        let tasks = self.json("/master/tasks?limit=10000")?;
        let list = tasks["tasks"].as_array().cloned().unwrap_or_default();
        let live = list.into_iter().filter(|task| task["state"].as_str().is_some_and(|state| LIVE.contains(&state)));
        Ok(live.map(|task| (task["id"].as_str().unwrap_or_default().to_owned(), task)).collect())
    }
}
