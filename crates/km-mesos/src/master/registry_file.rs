//! The registry on disk: one JSON file, replaced as a whole.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use km_mesos_core::master::{RegisteredAgent, Registry};
use prost::Message;
use serde::{Deserialize, Serialize};

/// Where the registry is.
pub(super) struct RegistryFile(PathBuf);

/// The file's form. Mesos messages are base64 of their protobuf, times are nanoseconds since the epoch.
#[derive(Default, Serialize, Deserialize)]
struct Content {
    agents: Vec<Agent>,
    unreachable: Vec<(String, u64)>,
    gone: Vec<(String, u64)>,
    schedule: String,
    down_machines: Vec<String>,
    weights: BTreeMap<String, f64>,
    quotas: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Agent {
    info: String,
    deactivated: bool,
    drain: Option<String>,
    drain_start: Option<u64>,
}

impl RegistryFile {
    /// Makes the directory if need be.
    pub fn open(work_dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(work_dir).with_context(|| format!("--work_dir: {} can't be made", work_dir.display()))?;
        Ok(Self(work_dir.join("registry.json")))
    }

    /// What is there; nothing when there is no file yet.
    pub fn read(&self) -> anyhow::Result<Registry> {
        let text = match fs::read(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Registry::default()),
            Err(error) => return Err(error).with_context(|| format!("{} can't be read", self.0.display())),
        };
        let damaged = || format!("{} is damaged; move it away to start with an empty registry", self.0.display());
        let content: Content = serde_json::from_slice(&text).with_context(damaged)?;
        from_content(content).with_context(damaged)
    }

    /// Replaces the file.
    pub fn write(&self, registry: &Registry) -> anyhow::Result<()> {
        let text = serde_json::to_vec(&to_content(registry))?;
        let fresh = self.0.with_extension("new");
        let mut file = fs::File::create(&fresh)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(&fresh, &self.0)?;
        Ok(())
    }
}

fn to_content(registry: &Registry) -> Content {
    let agent = |agent: &RegisteredAgent| Agent {
        info: encode(&agent.info),
        deactivated: agent.deactivated,
        drain: agent.drain.as_ref().map(encode),
        drain_start: agent.drain_start.map(nanoseconds),
    };
    Content {
        agents: registry.agents.iter().map(agent).collect(),
        unreachable: registry.unreachable.iter().map(|(info, since)| (encode(info), nanoseconds(*since))).collect(),
        gone: registry.gone.iter().map(|(id, since)| (id.clone(), nanoseconds(*since))).collect(),
        schedule: encode(&registry.schedule),
        down_machines: registry.down_machines.iter().map(encode).collect(),
        weights: registry.weights.clone(),
        quotas: registry.quotas.iter().map(encode).collect(),
    }
}

fn from_content(content: Content) -> anyhow::Result<Registry> {
    let agent = |agent: Agent| -> anyhow::Result<RegisteredAgent> {
        Ok(RegisteredAgent {
            info: decode(&agent.info)?,
            deactivated: agent.deactivated,
            drain: agent.drain.as_deref().map(decode).transpose()?,
            drain_start: agent.drain_start.map(Duration::from_nanos),
        })
    };
    let unreachable = |(info, since): (String, u64)| anyhow::Ok((decode(&info)?, Duration::from_nanos(since)));
    Ok(Registry {
        agents: content.agents.into_iter().map(agent).collect::<Result<_, _>>()?,
        unreachable: content.unreachable.into_iter().map(unreachable).collect::<Result<_, _>>()?,
        gone: content.gone.into_iter().map(|(id, since)| (id, Duration::from_nanos(since))).collect(),
        schedule: decode(&content.schedule)?,
        down_machines: content.down_machines.iter().map(|one| decode(one)).collect::<Result<_, _>>()?,
        weights: content.weights,
        quotas: content.quotas.iter().map(|one| decode(one)).collect::<Result<_, _>>()?,
    })
}

fn encode(message: &impl Message) -> String {
    STANDARD.encode(message.encode_to_vec())
}

fn decode<M: Message + Default>(text: &str) -> anyhow::Result<M> {
    Ok(M::decode(STANDARD.decode(text)?.as_slice())?)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
