//! An executor whose process only waits: the script itself speaks to the agent in its place.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    framework::{Framework, scalar},
    player::{DEADLINE, JSON, POLL, Player, Reply, text},
    stream::Stream,
};

const PATH: &str = "/api/v1/executor";

/// An executor's connection to its agent.
pub struct Executor {
    /// What its process was started with.
    pub environment: BTreeMap<String, String>,
    /// Its events.
    pub stream: Stream,
    exit: PathBuf,
    updates: u128,
}

impl Executor {
    /// Lets the process end with this code.
    pub fn exit(&self, code: i32) -> Result<()> {
        let part = self.exit.with_extension("writing");
        fs::write(&part, code.to_string())?;
        fs::rename(part, &self.exit)?;
        Ok(())
    }

    /// Its process: the shell that waits.
    pub fn process(&self) -> Result<i32> {
        let text = fs::read_to_string(self.exit.with_extension("pid"))?;
        Ok(text.trim().parse()?)
    }

    /// The next status that it has for a task.
    pub fn next_status(&mut self, task: &str, state: &str) -> Value {
        self.updates += 1;
        let uuid = uuid::Uuid::from_u128(0x4000_8000_0000_0000_0000 + self.updates);
        json!({
            "task_id": { "value": task }, "state": state, "source": "SOURCE_EXECUTOR", "message": format!("is {state}"),
            "uuid": STANDARD.encode(uuid.as_bytes()), "timestamp": 1_700_000_000.5,
        })
    }

    /// Its next update has the uuid of the last one.
    pub fn says_again(&mut self) {
        self.updates -= 1;
    }

    fn variable(&self, name: &str) -> Result<&str> {
        self.environment.get(name).map(String::as_str).with_context(|| format!("the executor has no {name}"))
    }
}

impl Player {
    /// An executor's information. Its process puts its environment into a file and waits to be told to end.
    pub fn executor_info(&self, id: &str) -> Value {
        let folder = self.folder.display();
        let script = format!(
            "d={folder}/$MESOS_FRAMEWORK_ID; mkdir -p $d; f=$d/$MESOS_EXECUTOR_ID; echo $$ >$f.pid; env >$f.part; mv $f.part $f.env; \
             until [ -e $f.exit ] || [ -e {folder}/stop ] || [ ! -d {folder} ]; do sleep 0.05; done; exit $(cat $f.exit 2>/dev/null || echo 0)"
        );
        json!({
            "type": "CUSTOM", "executor_id": { "value": id }, "command": { "value": script },
            "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)],
        })
    }

    /// A small task for an executor of this id, on the offer's agent.
    pub fn task(&self, offer: &Value, id: &str, executor: &str) -> Value {
        json!({
            "name": id, "task_id": { "value": id }, "agent_id": offer["agent_id"],
            "executor": self.executor_info(executor), "resources": [scalar("cpus", 0.5), scalar("mem", 64.0)],
        })
    }

    /// Waits for the process of the framework's executor.
    pub async fn executor_begins(&self, framework: &Framework, id: &str) -> Result<BTreeMap<String, String>> {
        environment(&self.folder.join(&framework.id).join(format!("{id}.env"))).await
    }

    /// Lets an executor's process end that nobody subscribed for.
    pub fn executor_exits(&self, framework: &Framework, id: &str, code: i32) -> Result<()> {
        let exit = self.folder.join(&framework.id).join(format!("{id}.exit"));
        let part = exit.with_extension("writing");
        fs::write(&part, code.to_string())?;
        Ok(fs::rename(part, exit)?)
    }

    /// Lets another executor of the same id come after this one.
    pub fn executor_forgotten(&self, framework: &Framework, id: &str) -> Result<()> {
        Ok(fs::remove_file(self.folder.join(&framework.id).join(format!("{id}.env")))?)
    }

    /// Subscribes again in an executor's place once its agent is back, with what the agent may have missed.
    pub async fn executor_returns(&mut self, executor: &mut Executor, unacknowledged: &[Value]) -> Result<()> {
        let mut call = json!({ "type": "SUBSCRIBE", "subscribe": { "unacknowledged_updates": unacknowledged } });
        call["framework_id"] = json!({ "value": executor.variable("MESOS_FRAMEWORK_ID")? });
        call["executor_id"] = json!({ "value": executor.variable("MESOS_EXECUTOR_ID")? });
        let endpoint = executor.variable("MESOS_AGENT_ENDPOINT")?.to_owned();
        let wait = async {
            loop {
                // While the agent begins nobody listens, and while it recovers it answers 503.
                match post(&endpoint, &call).await {
                    Ok(response) if response.status().is_success() => return response,
                    _ => tokio::time::sleep(POLL).await,
                }
            }
        };
        let response = tokio::time::timeout(DEADLINE, wait).await.context("the agent does not come back")?;
        executor.stream = Stream::read(response);
        self.executor_event(executor, "SUBSCRIBED").await?;
        Ok(())
    }

    /// Waits for the process of the framework's executor and subscribes in its place; SUBSCRIBED is recorded.
    pub async fn executor(&mut self, framework: &Framework, id: &str) -> Result<Executor> {
        let folder = self.folder.join(&framework.id);
        let environment = self.executor_begins(framework, id).await?;
        let endpoint = environment.get("MESOS_AGENT_ENDPOINT").context("no MESOS_AGENT_ENDPOINT")?;
        let mut call = json!({ "type": "SUBSCRIBE", "subscribe": {} });
        call["framework_id"] = json!({ "value": environment.get("MESOS_FRAMEWORK_ID") });
        call["executor_id"] = json!({ "value": environment.get("MESOS_EXECUTOR_ID") });
        let response = post(endpoint, &call).await?;
        self.note_head("executor SUBSCRIBE", &response);
        if !response.status().is_success() {
            bail!("executor SUBSCRIBE: {}", text(response).await?);
        }
        let exit = folder.join(format!("{id}.exit"));
        let mut executor = Executor { environment, stream: Stream::read(response), exit, updates: 0 };
        self.executor_event(&mut executor, "SUBSCRIBED").await?;
        Ok(executor)
    }

    /// Subscribes in the place of an executor that has nothing to do any more: it is told to end, and does.
    pub async fn executor_is_sent_home(&mut self, framework: &Framework, id: &str) -> Result<()> {
        let environment = self.executor_begins(framework, id).await?;
        let endpoint = environment.get("MESOS_AGENT_ENDPOINT").context("no MESOS_AGENT_ENDPOINT")?;
        let mut call = json!({ "type": "SUBSCRIBE", "subscribe": {} });
        call["framework_id"] = json!({ "value": framework.id });
        call["executor_id"] = json!({ "value": id });
        let response = post(endpoint, &call).await?;
        self.note_head("executor SUBSCRIBE", &response);
        let exit = self.folder.join(&framework.id).join(format!("{id}.exit"));
        let mut executor = Executor { environment, stream: Stream::read(response), exit, updates: 0 };
        self.executor_event(&mut executor, "SHUTDOWN").await?;
        executor.exit(0)
    }

    /// The executor's next event, which must be of the type; recorded.
    pub async fn executor_event(&mut self, executor: &mut Executor, kind: &str) -> Result<Value> {
        let event = executor.stream.event().await.with_context(|| format!("executor awaiting {kind}"))?;
        self.note("executor event", &event);
        anyhow::ensure!(event["type"] == kind, "the executor awaits {kind}");
        Ok(event)
    }

    /// A call of the executor; recorded.
    pub async fn executor_call(&mut self, executor: &Executor, kind: &str, body: Value) -> Result<Reply> {
        let mut call = body;
        call["type"] = kind.into();
        call["framework_id"] = json!({ "value": executor.variable("MESOS_FRAMEWORK_ID")? });
        call["executor_id"] = json!({ "value": executor.variable("MESOS_EXECUTOR_ID")? });
        let response = post(executor.variable("MESOS_AGENT_ENDPOINT")?, &call).await?;
        self.note_head(&format!("executor {kind}"), &response);
        let reply = Reply { body: text(response).await? };
        self.note("body", &reply.body.as_str().into());
        Ok(reply)
    }

    /// The executor says that its task is in this state.
    pub async fn update(&mut self, executor: &mut Executor, task: &str, state: &str) -> Result<Reply> {
        self.update_with(executor, task, state, json!({})).await
    }

    /// As `update`, with more to say.
    pub async fn update_with(
        &mut self,
        executor: &mut Executor,
        task: &str,
        state: &str,
        more: Value,
    ) -> Result<Reply> {
        let mut status = executor.next_status(task, state);
        for (field, value) in more.as_object().into_iter().flatten() {
            status[field] = value.clone();
        }
        self.executor_call(executor, "UPDATE", json!({ "update": { "status": status } })).await
    }

    /// The framework's next update, acknowledged if it asks for that.
    pub async fn acknowledged(&mut self, framework: &mut Framework) -> Result<Value> {
        let event = self.expect(framework, "UPDATE").await?;
        let status = &event["update"]["status"];
        if status["uuid"].is_string() {
            let body = json!({ "acknowledge": {
                "agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": status["uuid"],
            } });
            self.call(framework, "ACKNOWLEDGE", body).await?;
        }
        Ok(event)
    }

    /// As `acknowledged`, past failures and offers and not recorded: the status.
    pub async fn acknowledged_quietly(&mut self, framework: &mut Framework) -> Result<Value> {
        loop {
            let event = framework.stream.news().await?;
            if event["type"] != "UPDATE" {
                continue;
            }
            let status = event["update"]["status"].clone();
            if status["uuid"].is_string() {
                let body = json!({ "acknowledge": {
                    "agent_id": status["agent_id"], "task_id": status["task_id"], "uuid": status["uuid"],
                } });
                self.call(framework, "ACKNOWLEDGE", body).await?;
            }
            return Ok(status);
        }
    }

    /// The executor's update, seen by the framework and acknowledged on both sides.
    pub async fn passes_on(
        &mut self,
        executor: &mut Executor,
        framework: &mut Framework,
        task: &str,
        state: &str,
    ) -> Result<()> {
        self.update(executor, task, state).await?;
        self.executor_event(executor, "ACKNOWLEDGED").await?;
        self.acknowledged(framework).await?;
        Ok(())
    }

    /// Waits until the only agent has seen all that the framework said so far: messages come after it.
    pub async fn settled(&mut self, framework: &Framework, executor: &mut Executor) -> Result<()> {
        let shown = self.state("/slaves").await?;
        let agent = json!({ "value": shown["slaves"][0]["id"] });
        self.settled_on(framework, executor, &agent).await
    }

    /// As `settled`, on this agent.
    pub async fn settled_on(&mut self, framework: &Framework, executor: &mut Executor, agent: &Value) -> Result<()> {
        let message = json!({
            "agent_id": agent, "data": STANDARD.encode("settled"),
            "executor_id": { "value": executor.variable("MESOS_EXECUTOR_ID")? },
        });
        self.call(framework, "MESSAGE", json!({ "message": message })).await?;
        self.executor_event(executor, "MESSAGE").await?;
        Ok(())
    }

    /// A task that runs on the offer's agent, with an executor of the same name.
    pub async fn running(&mut self, framework: &mut Framework, offer: &Value, id: &str) -> Result<Executor> {
        let task = self.task(offer, id, id);
        let body = crate::framework::accept(std::slice::from_ref(offer), &[crate::framework::launch(&[task])]);
        self.call(framework, "ACCEPT", body).await?;
        let mut executor = self.executor(framework, id).await?;
        self.executor_event(&mut executor, "LAUNCH").await?;
        self.passes_on(&mut executor, framework, id, "TASK_RUNNING").await?;
        Ok(executor)
    }
}

async fn post(endpoint: &str, call: &Value) -> Result<reqwest::Response> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let request = client.post(format!("http://{endpoint}{PATH}")).body(call.to_string());
    let request = JSON.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Ok(tokio::time::timeout(DEADLINE, request.send()).await.context("the agent doesn't answer")??)
}

async fn environment(file: &std::path::Path) -> Result<BTreeMap<String, String>> {
    let wait = async {
        while !file.exists() {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.context("the executor's process did not start")?;
    let text = fs::read_to_string(file)?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
