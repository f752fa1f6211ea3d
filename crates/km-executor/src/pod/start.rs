//! From a container's spec to what the runtime is asked for.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, HostAlias, Pod, ResourceRequirements};
use km_pod::{
    Event, Exit, StartFailure, container_id, cpu_limit_milli, cpu_shares,
    downward::NodeFacts,
    env::{self, Invocation},
    memory_limit_bytes,
};
use km_runtime::{
    ContainerResources, ContainerSpec, ContainerState, ContainerStatus, Mount, PortMapping, Protocol, RuntimeError,
    SandboxSpec,
};

use super::{QUICK, SLOW, Shared, exit, not_created, services, within};
use crate::{
    api::PodKey,
    credentials,
    volumes::{Volumes, sources},
};

/// A pull may take long, but not for ever.
const PULL_DEADLINE: std::time::Duration = std::time::Duration::from_secs(1800);
const MAX_HOSTNAME: usize = 63;

/// The sandbox of a pod.
pub fn sandbox_spec(pod: &Pod, shared: &Shared) -> SandboxSpec {
    let key = PodKey::of(pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let host_network = spec.host_network == Some(true);
    let mut hostname = spec.hostname.clone().unwrap_or_else(|| key.name.clone());
    hostname.truncate(MAX_HOSTNAME);
    let hostname = if host_network { shared.facts.node_name.clone() } else { hostname };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
        let number = |port: i32| u16::try_from(port).ok().filter(|port| *port > 0);
        let protocol = match port.protocol.as_deref() {
            None | Some("TCP") => Protocol::Tcp,
            Some("UDP") => Protocol::Udp,
            Some(_) => return None,
        };
        let host_port = number(port.host_port?)?;
        Some(PortMapping { container_port: number(port.container_port)?, host_port, protocol })
    });
    SandboxSpec {
        id: key.uid,
        namespace: key.namespace,
        name: key.name,
        hostname: hostname.trim_end_matches(['-', '.']).to_owned(),
        host_network,
        ports: if host_network { Vec::new() } else { ports.collect() },
        resolv_conf: shared.dns.resolv_conf(pod),
        hosts: spec.host_aliases.iter().flatten().map(host_line).collect(),
        annotations: BTreeMap::new(),
    }
}

/// A line of `/etc/hosts`.
fn host_line(alias: &HostAlias) -> String {
    let names = alias.hostnames.iter().flatten().cloned();
    std::iter::once(alias.ip.clone()).chain(names).collect::<Vec<_>>().join("\t")
}

/// Fetches an image, with each matching credential of the pod and at last without one.
pub async fn pull(shared: Arc<Shared>, pod: Pod, container: String, image: String) -> Event {
    let candidates = credentials::of_pod(&*shared.api, &pod, &image, &shared.dockercfg).await;
    let mut failure = String::new();
    for auth in candidates.into_iter().map(Some).chain([None]) {
        match within(PULL_DEADLINE, shared.runtime.pull_image(&image, auth)).await {
            Ok(info) => return Event::ImagePulled { container, image_id: info.id },
            Err(error) if failure.is_empty() => failure = error.to_string(),
            Err(_) => {}
        }
    }
    Event::PullFailed { container, message: failure }
}

pub struct Request {
    pub shared: Arc<Shared>,
    pub volumes: Arc<Volumes>,
    pub pod: Pod,
    pub ip: Option<IpAddr>,
    pub dir: PathBuf,
}

/// Where a container may leave its last words, on the host.
pub fn termination_file(dir: &Path, container: &str, attempt: u32) -> PathBuf {
    dir.join("termination").join(container).join(attempt.to_string())
}

/// Starts one attempt of a container.
pub async fn start(request: Request, name: String, attempt: u32, image: String) -> Event {
    let Some(container) = exit::container(&request.pod, &name).cloned() else {
        return not_created(name.clone(), attempt, format!("the pod has no container {name}"));
    };
    let config_error = |message: String| Event::StartFailed {
        container: name.clone(),
        attempt,
        failure: StartFailure::Config(message),
    };
    let spec = match tokio::time::timeout(SLOW, prepare(&request, &container, attempt, &image)).await {
        Ok(Ok(spec)) => spec,
        Ok(Err(message)) => return config_error(message),
        Err(_) => return config_error("the API server gave no configuration in time".into()),
    };
    let runtime = &request.shared.runtime;
    match within(SLOW, runtime.start_container(&spec)).await {
        Ok(status) => Event::Started {
            container: name,
            attempt,
            at: status.started_at.and_then(whole_seconds).unwrap_or_else(Timestamp::now),
        },
        Err(RuntimeError::ImageNotPresent(image)) => {
            not_created(name, attempt, format!("image {image:?} was removed after it was found"))
        }
        Err(error) => match within(QUICK, runtime.container_status(&spec.id)).await {
            Ok(status) if status.state == ContainerState::Exited => Event::StartFailed {
                container: name,
                attempt,
                failure: StartFailure::Run(cannot_run(&request, &status, &error)),
            },
            // It runs after all: the call lasted too long.
            Ok(status) if status.state == ContainerState::Running => Event::Started {
                container: name,
                attempt,
                at: status.started_at.and_then(whole_seconds).unwrap_or_else(Timestamp::now),
            },
            _ => not_created(name, attempt, error.to_string()),
        },
    }
}

fn whole_seconds(nanos: i64) -> Option<Timestamp> {
    Timestamp::from_second(nanos.div_euclid(1_000_000_000)).ok()
}

fn cannot_run(request: &Request, status: &ContainerStatus, error: &RuntimeError) -> Exit {
    let mut exit = exit::of_status(&request.pod, &request.dir, status);
    if exit.message.is_empty() {
        exit.message = error.to_string();
    }
    if exit.reason.is_empty() {
        exit.reason = "ContainerCannotRun".into();
    }
    exit
}

/// Resolves every reference of the container; the error is what a `CreateContainerConfigError` shows.
async fn prepare(request: &Request, container: &Container, attempt: u32, image: &str) -> Result<ContainerSpec, String> {
    let Request { shared, volumes, pod, ip, dir } = request;
    let key = PodKey::of(pod);
    let facts = NodeFacts { pod_ip: *ip, ..shared.facts.clone() };
    let sources = sources::variables(&*shared.api, &key.namespace, env::references(container)).await?;
    let services = services::variables(&*shared.api, pod).await?;
    let invocation = env::resolve(pod, container, &facts, &sources, services).map_err(|error| error.0)?;
    let mut mounts = volumes.mounts(pod, container, &invocation.env).map_err(|error| error.to_string())?;
    mounts.push(termination_mount(dir, container, attempt).map_err(|error| error.to_string())?);
    let security = Security::of(pod, container);
    security.check_user(shared, image).await?;
    Ok(build(&key, container, attempt, image, (invocation, mounts, security)))
}

fn build(
    key: &PodKey,
    container: &Container,
    attempt: u32,
    image: &str,
    (invocation, mounts, security): (Invocation, Vec<Mount>, Security),
) -> ContainerSpec {
    ContainerSpec {
        id: container_id(&key.uid, &container.name, attempt),
        sandbox_id: key.uid.clone(),
        name: container.name.clone(),
        attempt,
        image: image.to_owned(),
        command: invocation.command,
        args: invocation.args,
        env: invocation.env,
        working_dir: container.working_dir.clone().filter(|dir| !dir.is_empty()),
        mounts,
        cpu_shares: cpu_shares(container),
        cpu_limit_milli: cpu_limit_milli(container),
        memory_limit_bytes: memory_limit_bytes(container),
        run_as_user: security.user,
        run_as_group: security.group,
        supplemental_groups: security.groups,
        no_new_privileges: security.no_new_privileges,
        privileged: security.privileged,
        read_only_root: security.read_only_root,
        add_capabilities: security.add,
        drop_capabilities: security.drop,
        ..Default::default()
    }
}

/// Resources in the runtime's terms.
pub fn resources(resources: ResourceRequirements) -> ContainerResources {
    let container = Container { resources: Some(resources), ..Default::default() };
    ContainerResources {
        cpu_shares: cpu_shares(&container),
        cpu_limit_milli: cpu_limit_milli(&container),
        memory_limit_bytes: memory_limit_bytes(&container),
    }
}

/// The container's security context over the pod's.
struct Security {
    user: Option<u32>,
    group: Option<u32>,
    groups: Vec<u32>,
    no_new_privileges: bool,
    non_root: bool,
    privileged: bool,
    read_only_root: bool,
    add: Vec<String>,
    drop: Vec<String>,
}

impl Security {
    fn of(pod: &Pod, container: &Container) -> Self {
        let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
        let own = container.security_context.clone().unwrap_or_default();
        let id = |own: Option<i64>, pod: Option<i64>| own.or(pod).and_then(|id| u32::try_from(id).ok());
        let groups = of_pod.supplemental_groups.into_iter().flatten().chain(of_pod.fs_group);
        let capabilities = own.capabilities.unwrap_or_default();
        Self {
            user: id(own.run_as_user, of_pod.run_as_user),
            group: id(own.run_as_group, of_pod.run_as_group),
            groups: groups.filter_map(|group| u32::try_from(group).ok()).collect(),
            no_new_privileges: own.allow_privilege_escalation == Some(false),
            non_root: own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true),
            privileged: own.privileged == Some(true),
            read_only_root: own.read_only_root_filesystem == Some(true),
            add: capabilities.add.unwrap_or_default(),
            drop: capabilities.drop.unwrap_or_default(),
        }
    }

    /// `runAsNonRoot` is kept before anything runs.
    async fn check_user(&self, shared: &Shared, image: &str) -> Result<(), String> {
        if !self.non_root {
            return Ok(());
        }
        match self.user {
            Some(0) => Err("container's runAsUser breaks non-root policy".into()),
            Some(_) => Ok(()),
            None => {
                let info = within(QUICK, shared.runtime.image(image)).await.map_err(|error| error.to_string())?;
                let user = info.map(|info| info.user).unwrap_or_default();
                match user.split(':').next().unwrap_or_default() {
                    "" | "0" | "root" => Err("container has runAsNonRoot and image will run as root".into()),
                    name if name.parse::<u32>().is_ok() => Ok(()),
                    name => Err(format!(
                        "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
                    )),
                }
            }
        }
    }
}

fn termination_mount(dir: &Path, container: &Container, attempt: u32) -> std::io::Result<Mount> {
    let file = termination_file(dir, &container.name, attempt);
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&file, "")?;
    // The container may run as any user.
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    let inside = container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
    Ok(Mount { host_path: file, container_path: inside.into(), read_only: false })
}
