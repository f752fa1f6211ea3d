//! The lines of the log: JSON. Mesos messages are base64 of their protobuf, times are nanoseconds since the epoch.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use km_mesos_core::master::{AgentRecord, ClusterRecord, RegisteredAgent, Registry, RegistryChange};
use km_mesos_proto::v1;
use prost::Message;
use serde::{Deserialize, Serialize};

/// The first line.
#[derive(Serialize, Deserialize)]
struct Whole {
    agents: Vec<Agent>,
    unreachable: Vec<(String, u64)>,
    gone: Vec<(String, u64)>,
    #[serde(flatten)]
    cluster: Cluster,
}

/// Any other line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    Agent { id: String, admitted: Option<Agent>, unreachable: Option<(String, u64)>, gone: Option<u64> },
    Cluster(Cluster),
}

#[derive(Serialize, Deserialize)]
struct Agent {
    info: String,
    deactivated: bool,
    drain: Option<String>,
    drain_start: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Cluster {
    schedule: String,
    down_machines: Vec<String>,
    weights: BTreeMap<String, f64>,
    quotas: Vec<String>,
}

pub(super) fn of_whole(registry: &Registry) -> anyhow::Result<Vec<u8>> {
    let records = || registry.agents.iter();
    line(&Whole {
        agents: records().filter_map(|(_, record)| record.admitted.as_ref()).map(of_agent).collect(),
        unreachable: records().filter_map(|(_, record)| record.unreachable.as_ref()).map(of_unreachable).collect(),
        gone: records().filter_map(|(id, record)| Some((id.clone(), nanoseconds(record.gone?)))).collect(),
        cluster: of_cluster(&registry.cluster),
    })
}

pub(super) fn read_whole(line: &[u8]) -> anyhow::Result<Registry> {
    let whole: Whole = serde_json::from_slice(line)?;
    let mut agents = BTreeMap::<String, AgentRecord>::new();
    for agent in whole.agents {
        let agent = read_agent(agent)?;
        let id = id_of(&agent.info)?;
        agents.entry(id).or_default().admitted = Some(agent);
    }
    for unreachable in whole.unreachable {
        let (info, since) = read_unreachable(unreachable)?;
        let id = id_of(&info)?;
        agents.entry(id).or_default().unreachable = Some((info, since));
    }
    for (id, since) in whole.gone {
        agents.entry(id).or_default().gone = Some(Duration::from_nanos(since));
    }
    Ok(Registry { agents, cluster: read_cluster(whole.cluster)? })
}

pub(super) fn of_change(change: &RegistryChange) -> anyhow::Result<Vec<u8>> {
    line(&match change {
        RegistryChange::Agent { id, record } => Change::Agent {
            id: id.clone(),
            admitted: record.admitted.as_ref().map(of_agent),
            unreachable: record.unreachable.as_ref().map(of_unreachable),
            gone: record.gone.map(nanoseconds),
        },
        RegistryChange::Cluster(cluster) => Change::Cluster(of_cluster(cluster)),
    })
}

pub(super) fn read_change(line: &[u8]) -> anyhow::Result<RegistryChange> {
    Ok(match serde_json::from_slice(line)? {
        Change::Agent { id, admitted, unreachable, gone } => {
            let record = AgentRecord {
                admitted: admitted.map(read_agent).transpose()?,
                unreachable: unreachable.map(read_unreachable).transpose()?,
                gone: gone.map(Duration::from_nanos),
            };
            RegistryChange::Agent { id, record: Box::new(record) }
        }
        Change::Cluster(cluster) => RegistryChange::Cluster(Box::new(read_cluster(cluster)?)),
    })
}

fn line(content: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(content)?;
    line.push(b'\n');
    Ok(line)
}

fn id_of(info: &v1::AgentInfo) -> anyhow::Result<String> {
    let id = info.id.as_ref().map(|id| id.value.clone());
    id.ok_or_else(|| anyhow::anyhow!("an agent ({}) has no id", info.hostname))
}

fn of_agent(agent: &RegisteredAgent) -> Agent {
    Agent {
        info: encode(&agent.info),
        deactivated: agent.deactivated,
        drain: agent.drain.as_ref().map(encode),
        drain_start: agent.drain_start.map(nanoseconds),
    }
}

fn read_agent(agent: Agent) -> anyhow::Result<RegisteredAgent> {
    Ok(RegisteredAgent {
        info: decode(&agent.info)?,
        deactivated: agent.deactivated,
        drain: agent.drain.as_deref().map(decode).transpose()?,
        drain_start: agent.drain_start.map(Duration::from_nanos),
    })
}

fn of_unreachable((info, since): &(v1::AgentInfo, Duration)) -> (String, u64) {
    (encode(info), nanoseconds(*since))
}

fn read_unreachable((info, since): (String, u64)) -> anyhow::Result<(v1::AgentInfo, Duration)> {
    Ok((decode(&info)?, Duration::from_nanos(since)))
}

fn of_cluster(cluster: &ClusterRecord) -> Cluster {
    Cluster {
        schedule: encode(&cluster.schedule),
        down_machines: cluster.down_machines.iter().map(encode).collect(),
        weights: cluster.weights.clone(),
        quotas: cluster.quotas.iter().map(encode).collect(),
    }
}

fn read_cluster(cluster: Cluster) -> anyhow::Result<ClusterRecord> {
    Ok(ClusterRecord {
        schedule: decode(&cluster.schedule)?,
        down_machines: cluster.down_machines.iter().map(|one| decode(one)).collect::<Result<_, _>>()?,
        weights: cluster.weights,
        quotas: cluster.quotas.iter().map(|one| decode(one)).collect::<Result<_, _>>()?,
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
