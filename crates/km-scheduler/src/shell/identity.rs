//! The framework's durable identity: a ConfigMap with the framework id and the number of starts.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use km_mesos_proto::v1;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use prost::Message;
use serde_json::json;
use tokio::sync::watch;

/// Where it is kept.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "k8sm-scheduler";
const FRAMEWORK_ID: &str = "frameworkId";
const FRAMEWORK_NAME: &str = "frameworkName";
const GENERATION: &str = "generation";

/// Prefix of the keys under which executors' prototypes are kept: the start that first had it, and the message in base64.
const EXECUTOR: &str = "executor.";
/// So many prototypes are remembered; those of the earliest starts make room.
const EXECUTORS: usize = 32;

/// Longest wait for one answer of the API server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the identity can't be written.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("another scheduler was started for this framework since")]
    Superseded,
}

/// The framework id as it is stored.
pub struct Identity {
    client: Client,
    framework_name: String,
    generation: u32,
    id: watch::Sender<Option<String>>,
    executors: Vec<v1::ExecutorInfo>,
}

impl Identity {
    /// Reads the identity and counts this start. Tries until the API server answers.
    pub async fn open(client: Client, framework_name: &str, executor: &v1::ExecutorInfo) -> Self {
        let mut pause = Duration::from_millis(100);
        loop {
            match Self::count_start(&client, framework_name, executor).await {
                Ok((generation, data)) => {
                    let id = data.get(FRAMEWORK_ID).filter(|id| !id.is_empty()).cloned();
                    tracing::info!(generation, id, "framework identity read");
                    let framework_name = framework_name.to_owned();
                    let executors = data.iter().filter_map(|(key, value)| prototype(key, value)).collect();
                    return Self { client, framework_name, generation, id: watch::Sender::new(id), executors };
                }
                Err(error) => tracing::warn!(%error, "the framework's identity can't be read yet"),
            }
            tokio::time::sleep(pause + jitter(pause)).await;
            pause = (pause * 2).min(Duration::from_secs(5));
        }
    }

    /// The number of this start, from 1.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// All prototypes of executors that were ever launched for this framework, as far as remembered.
    pub fn executors(&self) -> &[v1::ExecutorInfo] {
        &self.executors
    }

    /// The stored framework id.
    pub fn id(&self) -> Option<String> {
        self.id.borrow().clone()
    }

    /// Stores the id. Nothing may be launched before that.
    pub async fn keep(&self, id: &str) -> Result<(), IdentityError> {
        if self.id().as_deref() == Some(id) {
            return Ok(());
        }
        self.write(Some(id)).await?;
        self.id.send_replace(Some(id.to_owned()));
        Ok(())
    }

    /// Forgets the id: the framework was removed by Mesos.
    pub async fn forget(&self) -> Result<(), IdentityError> {
        self.write(None).await?;
        self.id.send_replace(None);
        Ok(())
    }

    /// Whether the API server still keeps our id: then it is the store that we know, not another or an emptied one.
    pub async fn is_kept(&self) -> Result<bool, kube::Error> {
        let stored = within(maps(&self.client).get_opt(NAME)).await?;
        let stored = stored.and_then(|map| map.data).and_then(|data| data.get(FRAMEWORK_ID).cloned());
        Ok(stored.is_some() && stored == self.id())
    }

    /// Writes only as long as no other scheduler was started for this framework: the number of starts is a fence that a
    /// scheduler which stood still for long can't pass.
    async fn write(&self, id: Option<&str>) -> Result<(), IdentityError> {
        let maps = maps(&self.client);
        let Some(stored) = within(maps.get_opt(NAME)).await? else {
            // Somebody deleted it. Without it, no list of the API server would ever be believed again.
            let mut map = new_map(&self.framework_name, self.generation);
            if let Some(id) = id {
                map.data.get_or_insert_default().insert(FRAMEWORK_ID.to_owned(), id.to_owned());
            }
            within(maps.create(&PostParams::default(), &map)).await?;
            return Ok(());
        };
        let latest = stored.data.as_ref().and_then(|data| data.get(GENERATION)).and_then(|text| text.parse().ok());
        if latest.is_some_and(|latest: u32| latest != self.generation) {
            return Err(IdentityError::Superseded);
        }
        let patch = json!({
            "metadata": { "resourceVersion": stored.metadata.resource_version },
            "data": { FRAMEWORK_ID: id, FRAMEWORK_NAME: self.framework_name },
        });
        within(maps.patch(NAME, &PatchParams::default(), &Patch::Merge(patch))).await?;
        Ok(())
    }

    /// Counts the start and notes its executor, before any is launched. Answers the number of the start and all that is
    /// stored.
    async fn count_start(
        client: &Client,
        framework_name: &str,
        executor: &v1::ExecutorInfo,
    ) -> Result<(u32, BTreeMap<String, String>), kube::Error> {
        let maps = maps(client);
        let Some(mut map) = within(maps.get_opt(NAME)).await? else {
            ensure_namespace(client, NAMESPACE).await?;
            let mut map = new_map(framework_name, 1);
            let data = map.data.get_or_insert_default();
            remember(data, 1, executor);
            let data = data.clone();
            within(maps.create(&PostParams::default(), &map)).await?;
            return Ok((1, data));
        };
        let data = map.data.get_or_insert_default();
        let last: u32 = data.get(GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0);
        let generation = last.wrapping_add(1).max(1);
        data.insert(GENERATION.to_owned(), generation.to_string());
        // Another framework's id is none of ours.
        if data.insert(FRAMEWORK_NAME.to_owned(), framework_name.to_owned()).is_some_and(|name| name != framework_name)
        {
            data.remove(FRAMEWORK_ID);
        }
        remember(data, generation, executor);
        let data = data.clone();
        // The resource version makes two schedulers count apart.
        within(maps.replace(NAME, &PostParams::default(), &map)).await?;
        Ok((generation, data))
    }
}

/// Adds a prototype; of too many the one of the earliest start goes.
fn remember(data: &mut BTreeMap<String, String>, generation: u32, executor: &v1::ExecutorInfo) {
    let key = format!("{EXECUTOR}{}", executor.executor_id.value);
    data.insert(key, format!("{generation}:{}", STANDARD.encode(executor.encode_to_vec())));
    let age = |value: &String| value.split(':').next().and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    let mut all: Vec<(u32, String)> = data
        .iter()
        .filter(|(key, _)| key.starts_with(EXECUTOR))
        .map(|(key, value)| (age(value), key.clone()))
        .collect();
    all.sort_unstable();
    let surplus = all.len().saturating_sub(EXECUTORS);
    for (_, key) in all.into_iter().take(surplus) {
        data.remove(&key);
    }
}

/// Reads what [`remember`] wrote; what can't be read is no prototype.
fn prototype(key: &str, value: &str) -> Option<v1::ExecutorInfo> {
    let id = key.strip_prefix(EXECUTOR)?;
    let bytes = STANDARD.decode(value.split_once(':')?.1).ok()?;
    let executor = v1::ExecutorInfo::decode(bytes.as_slice()).ok()?;
    (executor.executor_id.value == id).then_some(executor)
}

fn new_map(framework_name: &str, generation: u32) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(NAME.to_owned());
    map.data = Some(BTreeMap::from([
        (GENERATION.to_owned(), generation.to_string()),
        (FRAMEWORK_NAME.to_owned(), framework_name.to_owned()),
    ]));
    map
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Makes a namespace unless it is there.
pub async fn ensure_namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if within(namespaces.get_opt(name)).await?.is_some() {
        return Ok(());
    }
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    match within(namespaces.create(&PostParams::default(), &namespace)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}

/// Gives a request a deadline.
pub async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(result) => result,
        Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
    }
}

/// Up to a quarter of a pause, at random.
pub fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random::<f64>() / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_read_back_and_the_earliest_make_room() {
        let executor = |number: u32| {
            let executor_id = format!("{number}_k8sm-executor").as_str().into();
            v1::ExecutorInfo { executor_id, name: Some(format!("name {number}")), ..v1::ExecutorInfo::default() }
        };
        let mut data = BTreeMap::from([("executor.broken".to_owned(), "x".to_owned())]);
        for number in 1..=40 {
            remember(&mut data, number, &executor(number));
        }
        let read: Vec<v1::ExecutorInfo> = data.iter().filter_map(|(key, value)| prototype(key, value)).collect();
        assert_eq!(read.len(), EXECUTORS);
        assert!(!read.contains(&executor(8)) && (9..=40).all(|number| read.contains(&executor(number))));
        assert_eq!(prototype("other", "1:"), None);
    }
}
