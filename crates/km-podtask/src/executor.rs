//! The executor: its identity, its form on one agent, and its resources as text.
//!
//! Mesos wants every task on an agent to carry the very same `ExecutorInfo`. So it is built from two things only: the
//! prototype (from flags) and the agent's host name and executor resources, which the Node's annotation keeps.

use base64::{Engine, engine::general_purpose::STANDARD};
use km_mesos_proto::v1;
use prost::Message;
use thiserror::Error;

/// Suffix of every executor id.
pub const ID_SUFFIX: &str = "_k8sm-executor";
/// `ExecutorInfo.name`.
pub const NAME: &str = "Kubelet-Executor";
/// `ExecutorInfo.source`.
pub const SOURCE: &str = "kubernetes";

const HOSTNAME_FLAG: &str = "--hostname-override=";

/// The text is no list of resources.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no comma-separated list of base64-encoded Mesos resources")]
pub struct CodecError(pub String);

/// The id of an executor: a hash over its name, source, data, command and artifacts, so that another configuration is
/// another executor. Environment variables and URIs count regardless of their order, arguments too.
pub fn id(prototype: &v1::ExecutorInfo) -> v1::ExecutorId {
    let mut bytes: Vec<u8> = Vec::new();
    let mut push = |part: &[u8]| bytes.extend_from_slice(part);
    push(prototype.name.as_deref().unwrap_or_default().as_bytes());
    #[allow(deprecated)]
    push(prototype.source.as_deref().unwrap_or_default().as_bytes());
    push(prototype.data.as_deref().unwrap_or_default());
    if let Some(command) = &prototype.command {
        push(command.value.as_deref().unwrap_or_default().as_bytes());
        push(command.user.as_deref().unwrap_or_default().as_bytes());
        push(if command.shell.unwrap_or(true) { b"true" } else { b"false" });
        push(sorted(command.arguments.clone()).as_bytes());
        let variables = command.environment.iter().flat_map(|environment| &environment.variables);
        let variable =
            |one: &v1::environment::Variable| format!("{}={}", one.name, one.value.as_deref().unwrap_or_default());
        push(sorted(variables.map(variable).collect()).as_bytes());
        let uri = |uri: &v1::command_info::Uri| {
            format!("{}{}{}", uri.value, uri.executable.unwrap_or(false), uri.extract.unwrap_or(true))
        };
        push(sorted(command.uris.iter().map(uri).collect()).as_bytes());
    }
    v1::ExecutorId { value: format!("{:x}{ID_SUFFIX}", crc64(&bytes)) }
}

fn sorted(mut parts: Vec<String>) -> String {
    parts.sort_unstable();
    parts.concat()
}

/// The executor as it is on one agent. `prototype` has its id already.
pub fn on_agent(prototype: &v1::ExecutorInfo, hostname: &str, resources: Vec<v1::Resource>) -> v1::ExecutorInfo {
    let mut executor = prototype.clone();
    executor.resources = resources;
    if let Some(command) = &mut executor.command {
        command.arguments.retain(|argument| !argument.starts_with(HOSTNAME_FLAG));
        command.arguments.push(format!("{HOSTNAME_FLAG}{hostname}"));
    }
    executor
}

/// The value of the Node annotation `executorResources`.
pub fn encode_resources(resources: &[v1::Resource]) -> String {
    let parts: Vec<String> = resources.iter().map(|resource| STANDARD.encode(resource.encode_to_vec())).collect();
    parts.join(",")
}

/// Reads [`encode_resources`] back. The empty text is an error: an executor always has resources.
pub fn decode_resources(text: &str) -> Result<Vec<v1::Resource>, CodecError> {
    let bad = || CodecError(text.to_owned());
    text.split(',')
        .map(|part| {
            let bytes = STANDARD.decode(part).map_err(|_| bad())?;
            if bytes.is_empty() {
                return Err(bad());
            }
            v1::Resource::decode(bytes.as_slice()).map_err(|_| bad())
        })
        .collect()
}

/// CRC-64 with the ECMA-182 polynomial, reflected, inverted before and after.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;
    let step = |crc: u64, byte: &u8| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc64_of_ecma() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }
}
