//! What agents fetch, and the executor that is made of it.

mod static_pods;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use km_mesos_proto::v1;
use km_podtask::executor;

use super::kubeconfig;
use crate::Flags;

/// Files served to agents, and the command that runs there.
#[derive(Clone, Debug)]
pub struct Artifacts {
    /// By the name in the URL.
    pub files: Vec<(String, Content)>,
    executor: v1::ExecutorInfo,
}

/// What is served.
#[derive(Clone, Debug)]
pub enum Content {
    File(PathBuf),
    Text(Arc<str>),
}

const BINARY: &str = "km";
const KUBECONFIG: &str = "kubeconfig";
const PROXY_KUBECONFIG: &str = "proxy-kubeconfig";
const DOCKERCFG: &str = ".dockercfg";
/// Names that the scheduler's own HTTP port uses.
const TAKEN: [&str; 6] = ["debug", "healthz", "livez", "metrics", "readyz", "version"];

/// The lists that grow with each artifact.
struct Collected<'a> {
    flags: &'a Flags,
    base: String,
    files: Vec<(String, Content)>,
    uris: Vec<v1::command_info::Uri>,
}

impl Artifacts {
    /// `served` is where the scheduler's own HTTP port is bound.
    ///
    /// # Errors
    /// A file can't be served.
    pub fn new(flags: &Flags, served: SocketAddr) -> anyhow::Result<Self> {
        let base = match flags.advertised_address.as_str() {
            "" => format!("http://{served}"),
            address => format!("http://{address}"),
        };
        let mut all = Collected { flags, base, files: Vec::new(), uris: Vec::new() };
        let binary = all.binary()?;
        let kubeconfig = all.kubeconfig()?;
        let mut arguments = vec![binary.clone(), "minion".to_owned(), format!("--kubeconfig={kubeconfig}")];
        arguments.extend(all.proxy_kubeconfig()?.map(|name| format!("--proxy-kubeconfig={name}")));
        all.overlay()?;
        arguments.extend(flags.executor.minion_arguments());
        arguments.extend(flags.minion_flag.iter().cloned());
        let static_pods = static_pods::read(flags)?;
        let executor = executor_info(flags, (binary, arguments), all.uris, static_pods);
        Ok(Self { files: all.files, executor })
    }

    /// The executor's prototype with its id.
    pub fn executor(&self) -> v1::ExecutorInfo {
        self.executor.clone()
    }
}

impl Collected<'_> {
    /// The program as agents call it.
    fn binary(&mut self) -> anyhow::Result<String> {
        if let Some(path) = &self.flags.agent_km_path {
            return Ok(path.display().to_string());
        }
        match self.flags.km_path.as_deref() {
            Some(url) if url.starts_with("file://") => Ok(url["file://".len()..].to_owned()),
            Some(url) if url.contains("://") => {
                let mut uri = fetched(url.to_owned());
                uri.executable = Some(true);
                // Whatever the URL's last part is.
                uri.output_file = Some(BINARY.to_owned());
                self.uris.push(uri);
                Ok(format!("./{BINARY}"))
            }
            path => {
                let own = || std::env::current_exe().context("can't find the running binary; give --km-path");
                let path = path.map_or_else(own, |path| Ok(path.into()))?;
                self.serve(BINARY, Content::File(path), |uri| uri.executable = Some(true))?;
                Ok(format!("./{BINARY}"))
            }
        }
    }

    fn kubeconfig(&mut self) -> anyhow::Result<String> {
        if let Some(path) = &self.flags.agent_kubeconfig {
            return Ok(path.display().to_string());
        }
        let file = self.flags.executor_kubeconfig.clone().or_else(|| self.flags.kubeconfig.clone());
        self.serve_kubeconfig(KUBECONFIG, file)?;
        Ok(KUBECONFIG.to_owned())
    }

    fn proxy_kubeconfig(&mut self) -> anyhow::Result<Option<String>> {
        let Some(file) = self.flags.executor.proxy_kubeconfig.clone() else { return Ok(None) };
        self.serve_kubeconfig(PROXY_KUBECONFIG, Some(file))?;
        Ok(Some(PROXY_KUBECONFIG.to_owned()))
    }

    fn serve_kubeconfig(&mut self, name: &str, file: Option<PathBuf>) -> anyhow::Result<()> {
        let servers = [&self.flags.kubelet_api_servers, &self.flags.api_servers];
        let server = servers.into_iter().flatten().next();
        let content = match (file, server) {
            (Some(file), None) => Content::File(file),
            (file, Some(server)) => {
                Content::Text(kubeconfig::as_text(&kubeconfig::config(file.as_deref(), Some(server))?)?.into())
            }
            (None, None) => bail!("--kubeconfig is missing"),
        };
        self.serve(name, content, |_| {})
    }

    /// Further files for the executor's sandbox.
    fn overlay(&mut self) -> anyhow::Result<()> {
        let flags = &self.flags.executor;
        if let Some(path) = flags.dockercfg_path.clone() {
            self.serve(DOCKERCFG, Content::File(path), |_| {})?;
        }
        if let Some(path) = flags.mesos_sandbox_overlay.clone() {
            let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
            let name = name.with_context(|| format!("--mesos-sandbox-overlay: {} has no name", path.display()))?;
            self.serve(&name, Content::File(path), |uri| uri.extract = Some(true))?;
        }
        Ok(())
    }

    fn serve(
        &mut self,
        name: &str,
        content: Content,
        change: impl FnOnce(&mut v1::command_info::Uri),
    ) -> anyhow::Result<()> {
        if let Content::File(path) = &content {
            std::fs::metadata(path).with_context(|| format!("can't serve {} to agents", path.display()))?;
        }
        let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-+".contains(letter));
        if !plain || TAKEN.contains(&name) || self.files.iter().any(|(other, _)| other == name) {
            bail!("can't serve a file named {name:?} to agents: another file or page has that URL; rename it");
        }
        let mut uri = fetched(format!("{}/{name}", self.base));
        change(&mut uri);
        self.files.push((name.to_owned(), content));
        self.uris.push(uri);
        Ok(())
    }
}

fn fetched(url: String) -> v1::command_info::Uri {
    v1::command_info::Uri {
        value: url,
        executable: Some(false),
        extract: Some(false),
        ..v1::command_info::Uri::default()
    }
}

fn executor_info(
    flags: &Flags,
    (binary, arguments): (String, Vec<String>),
    uris: Vec<v1::command_info::Uri>,
    static_pods: Vec<u8>,
) -> v1::ExecutorInfo {
    let variable = |(name, value): (&str, String)| v1::environment::Variable {
        name: name.to_owned(),
        value: Some(value),
        ..v1::environment::Variable::default()
    };
    let variables: Vec<_> = flags.executor.environment().into_iter().map(variable).collect();
    let command = v1::CommandInfo {
        value: Some(binary),
        user: Some(flags.user()),
        shell: Some(false),
        arguments,
        uris,
        environment: (!variables.is_empty()).then_some(v1::Environment { variables }),
    };
    #[allow(deprecated)]
    let mut executor = v1::ExecutorInfo {
        r#type: Some(v1::executor_info::Type::Custom as i32),
        name: Some(executor::NAME.to_owned()),
        source: Some(executor::SOURCE.to_owned()),
        command: Some(command),
        data: (!static_pods.is_empty()).then_some(static_pods),
        ..v1::ExecutorInfo::default()
    };
    executor.executor_id = executor::id(&executor);
    executor
}

#[cfg(test)]
mod tests;
