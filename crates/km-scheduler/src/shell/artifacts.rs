//! What agents fetch, and the executor that is made of it.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context;
use km_mesos_proto::v1;
use km_podtask::executor;

use crate::Flags;

/// Files served to agents, and the command that runs there.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// By the name in the URL.
    pub files: Vec<(String, PathBuf)>,
    executor: v1::ExecutorInfo,
}

const BINARY: &str = "km";
const KUBECONFIG: &str = "kubeconfig";

impl Artifacts {
    /// `served` is where the scheduler's own HTTP port is bound.
    pub fn new(flags: &Flags, served: SocketAddr) -> anyhow::Result<Self> {
        let base = match flags.advertised_address.as_str() {
            "" => format!("http://{served}"),
            address => format!("http://{address}"),
        };
        let mut files = Vec::new();
        let mut uris = Vec::new();
        let uri = |name: &str, executable| v1::command_info::Uri {
            value: format!("{base}/{name}"),
            executable: Some(executable),
            extract: Some(false),
            ..v1::command_info::Uri::default()
        };
        let binary = match &flags.agent_km_path {
            Some(path) => path.display().to_string(),
            None => {
                let own = || std::env::current_exe().context("can't find the running binary; give --km-path");
                files.push((BINARY.to_owned(), flags.km_path.clone().map_or_else(own, Ok)?));
                uris.push(uri(BINARY, true));
                format!("./{BINARY}")
            }
        };
        let kubeconfig = match &flags.agent_kubeconfig {
            Some(path) => path.display().to_string(),
            None => {
                let file = flags.executor_kubeconfig.clone().or_else(|| flags.kubeconfig.clone());
                files.push((KUBECONFIG.to_owned(), file.context("--kubeconfig is missing")?));
                uris.push(uri(KUBECONFIG, false));
                KUBECONFIG.to_owned()
            }
        };
        for (_, path) in &files {
            std::fs::metadata(path).with_context(|| format!("can't serve {} to agents", path.display()))?;
        }
        let mut arguments = vec![binary.clone(), "minion".to_owned(), format!("--kubeconfig={kubeconfig}")];
        arguments.extend(flags.minion_flag.iter().cloned());
        let command = v1::CommandInfo {
            value: Some(binary),
            user: Some(flags.mesos_user.clone()).filter(|user| !user.is_empty()),
            shell: Some(false),
            arguments,
            uris,
            ..v1::CommandInfo::default()
        };
        #[allow(deprecated)]
        let mut executor = v1::ExecutorInfo {
            r#type: Some(v1::executor_info::Type::Custom as i32),
            name: Some(executor::NAME.to_owned()),
            source: Some(executor::SOURCE.to_owned()),
            command: Some(command),
            ..v1::ExecutorInfo::default()
        };
        executor.executor_id = executor::id(&executor);
        Ok(Self { files, executor })
    }

    /// The executor's prototype with its id.
    pub fn executor(&self) -> v1::ExecutorInfo {
        self.executor.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 10251))
    }

    #[test]
    fn what_is_on_the_agents_is_not_fetched() {
        let flags = Flags {
            agent_km_path: Some("/opt/km".into()),
            agent_kubeconfig: Some("/etc/kc".into()),
            minion_flag: vec!["--v=2".into()],
            ..Flags::default()
        };
        let artifacts = Artifacts::new(&flags, served()).expect("nothing is served");
        let command = artifacts.executor().command.expect("it has a command");
        assert!(artifacts.files.is_empty() && command.uris.is_empty());
        assert_eq!(command.value.as_deref(), Some("/opt/km"));
        assert_eq!(command.arguments, ["/opt/km", "minion", "--kubeconfig=/etc/kc", "--v=2"]);
    }

    #[test]
    fn what_is_fetched_comes_from_the_advertised_address() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = Some(file.path().to_owned());
        let mut flags = Flags { km_path: path.clone(), kubeconfig: path, ..Flags::default() };
        let uris = |flags: &Flags| -> Vec<String> {
            let command = Artifacts::new(flags, served()).expect("files are there").executor().command;
            command.expect("it has a command").uris.into_iter().map(|uri| uri.value).collect()
        };
        assert_eq!(uris(&flags), ["http://10.0.0.1:10251/km", "http://10.0.0.1:10251/kubeconfig"]);
        flags.advertised_address = "lb:80".into();
        assert_eq!(uris(&flags)[0], "http://lb:80/km");
        flags.km_path = Some("/does/not/exist".into());
        let error = Artifacts::new(&flags, served()).expect_err("the file is missing").to_string();
        assert!(error.contains("/does/not/exist"), "{error}");
    }
}
