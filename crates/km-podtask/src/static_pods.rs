//! Static pods: manifests that every executor runs beside the pods it is sent, from the scheduler's folder to the
//! executor's. They travel in `ExecutorInfo.data`, as a compressed list, so other static pods are another executor.

use std::io::{Read, Write};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use k8s_openapi::{
    List,
    api::core::v1::{EnvVar, Pod},
};
use km_kube::{
    defaults, keys,
    pod::{DefaultLimits, ResourceTotals},
    schema, validation,
};
use serde_json::Value;

use crate::limits::{self, Accounting};

/// Schedulers keep several executors with their data in one ConfigMap of at most 1 MiB.
pub const MAX_ARCHIVE: usize = 16 * 1024;
/// Unpacked, a list that claims to be larger than this is none of ours.
const MAX_UNPACKED: u64 = 4 * 1024 * 1024;

/// Reads the manifest of one pod, in YAML or JSON, completes it as the API server would, and annotates it with the name
/// of its file.
///
/// # Errors
/// It is no manifest of one valid pod; the text says what is wrong.
pub fn parse(file_name: &str, text: &str) -> Result<Pod, String> {
    let mut object: Value = serde_saphyr::from_str(text).map_err(|error| format!("neither YAML nor JSON: {error}"))?;
    let of = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (of("apiVersion"), of("kind"));
    if (version.as_str(), kind.as_str()) != ("v1", "Pod") {
        return Err(format!("apiVersion {version:?} and kind {kind:?} are not those of a pod (v1, Pod)"));
    }
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
        return Err("metadata.name is missing".to_owned());
    }
    if let Some(of_pod) = schema::lookup("", "v1", "Pod") {
        let problems = schema::check(of_pod, &object);
        if let Some(problem) = problems.wrong.first().or(problems.unknown.first()) {
            return Err(problem.clone());
        }
    }
    defaults::apply("", "Pod", &mut object);
    if let Some(problem) = validation::create("", "Pod", &object).first() {
        return Err(problem.to_string());
    }
    let mut pod: Pod = serde_json::from_value(object).map_err(|error| error.to_string())?;
    annotate(&mut pod, keys::STATIC_POD_FILENAME, file_name);
    Ok(pod)
}

fn annotate(pod: &mut Pod, key: &str, value: &str) {
    pod.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}

/// CPU and memory of all static pods together. In the mode [`Accounting::Limits`] they get their default limits by it.
pub fn settle(pods: &mut [Pod], accounting: Accounting, defaults: &DefaultLimits) -> ResourceTotals {
    let mut totals = ResourceTotals::default();
    for pod in pods {
        totals.add(&limits::settle(pod, accounting, defaults));
    }
    totals
}

/// The compressed list; nothing for no pods. The same pods give the same bytes.
///
/// # Errors
/// They don't fit into [`MAX_ARCHIVE`].
pub fn pack(pods: &[Pod]) -> Result<Vec<u8>, String> {
    if pods.is_empty() {
        return Ok(Vec::new());
    }
    let list = List::<Pod> { items: pods.to_vec(), metadata: Default::default() };
    let json = serde_json::to_vec(&list).map_err(|error| error.to_string())?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let archive = encoder.write_all(&json).and_then(|()| encoder.finish()).map_err(|error| error.to_string())?;
    if archive.len() > MAX_ARCHIVE {
        return Err(format!("they take {} bytes compressed; {MAX_ARCHIVE} are allowed", archive.len()));
    }
    Ok(archive)
}

/// The pods of an executor's data.
///
/// # Errors
/// It is no compressed list of pods.
pub fn unpack(archive: &[u8]) -> Result<Vec<Pod>, String> {
    if archive.is_empty() {
        return Ok(Vec::new());
    }
    let mut json = Vec::new();
    let mut decoder = GzDecoder::new(archive).take(MAX_UNPACKED + 1);
    decoder.read_to_end(&mut json).map_err(|error| format!("the archive cannot be unpacked: {error}"))?;
    if json.len() as u64 > MAX_UNPACKED {
        return Err(format!("the archive unpacks to more than {MAX_UNPACKED} bytes"));
    }
    let list: List<Pod> =
        serde_json::from_slice(&json).map_err(|error| format!("the archive is no PodList: {error}"))?;
    Ok(list.items)
}

/// The pod for one host: annotated with its name, and with these variables in every container, in the place of those of
/// the same names.
pub fn for_host(mut pod: Pod, hostname: &str, variables: &[(String, String)]) -> Pod {
    annotate(&mut pod, keys::BINDING_HOST, hostname);
    let spec = pod.spec.iter_mut();
    for container in spec.flat_map(|spec| spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)) {
        for (name, value) in variables {
            let own = EnvVar { name: name.clone(), value: Some(value.clone()), value_from: None };
            let variables = container.env.get_or_insert_default();
            match variables.iter_mut().find(|variable| variable.name == *name) {
                Some(variable) => *variable = own,
                None => variables.push(own),
            }
        }
    }
    pod
}

/// The name of the file that a static pod came from, if it is one that a folder can hold.
pub fn file_name(pod: &Pod) -> Option<&str> {
    let name = pod.metadata.annotations.as_ref()?.get(keys::STATIC_POD_FILENAME)?;
    let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    plain.then_some(name.as_str())
}
