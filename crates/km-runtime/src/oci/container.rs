//! Containers: start by way of a shim, signal, remove.

use std::{path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::watch,
    time::timeout,
};

use super::{Entry, Inner, OciRuntime, blocking, check_id, sandbox::namespace_path};
use crate::{
    ContainerResources, ContainerSpec, ContainerState, ContainerStatus, Result, RuntimeError,
    bundle::{Bundle, ContainerRecord, ExitRecord, ShimReport, StartedRecord},
    cgroup,
    files::{self, Context, now},
    limits,
};

/// From starting the shim to its word that the program runs. A machine that takes longer is not well.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// From SIGKILL to the exit record.
const KILL_DEADLINE: Duration = Duration::from_secs(20);
const SIGKILL: i32 = 9;

impl OciRuntime {
    pub(super) async fn start(&self, spec: &ContainerSpec) -> Result<ContainerStatus> {
        check_id("container", &spec.id)?;
        let inner = &self.inner;
        let lock = inner.sandbox_lock(&spec.sandbox_id);
        let _one_at_a_time = lock.lock().await;
        if let Some(entry) = inner.state().containers.get(&spec.id) {
            return Ok(entry.status.clone());
        }
        let (bundle, record) = inner.create(spec).await?;
        let mut shim = match inner.spawn_shim(&bundle) {
            Ok(shim) => shim,
            Err(error) => {
                self.start_failed(&bundle, &error.to_string())?;
                return Err(error);
            }
        };
        let report = timeout(START_DEADLINE, read_report(&mut shim, &bundle)).await;
        match report {
            Ok(Ok(ShimReport::Started(started))) => {
                let status = inner.started(&spec.id, started);
                self.watch_child(bundle, record, shim);
                inner.send_event(&spec.sandbox_id, &spec.id);
                status.ok_or_else(|| RuntimeError::NotFound { kind: "container", id: spec.id.clone() })
            }
            Ok(Ok(ShimReport::Failed(exit))) => {
                // The shim ends by itself now; waiting for it in the background reaps it.
                self.watchers.spawn(async move { shim.wait().await });
                inner.ended(&spec.id, &exit);
                inner.send_event(&spec.sandbox_id, &spec.id);
                Err(RuntimeError::Other(exit.message))
            }
            Ok(Err(error)) => {
                self.give_up(&bundle, &record, shim, &error.to_string()).await?;
                Err(error)
            }
            Err(_elapsed) => {
                let message = format!("the container's shim did not start it within {} s", START_DEADLINE.as_secs());
                self.give_up(&bundle, &record, shim, &message).await?;
                Err(RuntimeError::Other(message))
            }
        }
    }

    /// Ends a shim that does not do its work, and what it may have started.
    async fn give_up(&self, bundle: &Bundle, record: &ContainerRecord, mut shim: Child, message: &str) -> Result<()> {
        shim.kill().await.context(|| "ending the shim".to_owned())?;
        let group = record.cgroup.clone();
        blocking(move || cgroup::remove(&group).context(|| "removing the control group".to_owned())).await?;
        self.start_failed(bundle, message)
    }

    fn start_failed(&self, bundle: &Bundle, message: &str) -> Result<()> {
        let exit = ExitRecord {
            exit_code: 128,
            signal: None,
            finished_at: now(),
            reason: ExitRecord::CANNOT_RUN.to_owned(),
            message: message.to_owned(),
        };
        bundle.write_exit(&exit).context(|| "recording the failed start".to_owned())?;
        if let Some(record) = bundle.record().context(|| "reading the container's record".to_owned())? {
            self.inner.ended(&record.spec.id, &exit);
            self.inner.send_event(&record.spec.sandbox_id, &record.spec.id);
        }
        Ok(())
    }
}

/// What the shim says, or what its log says when it says nothing.
async fn read_report(shim: &mut Child, bundle: &Bundle) -> Result<ShimReport> {
    let output = shim.stdout.take().ok_or_else(|| RuntimeError::Other("the shim has no output".to_owned()))?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await.context(|| "reading the shim's report".to_owned())?;
    if line.is_empty() {
        let log = std::fs::read_to_string(bundle.path("shim.log")).unwrap_or_default();
        return Err(RuntimeError::Other(format!("the container's shim ended early: {}", log.trim())));
    }
    serde_json::from_str(&line).map_err(|error| RuntimeError::Other(format!("the shim's report {line:?}: {error}")))
}

impl Inner {
    /// Writes the container's folder.
    async fn create(&self, spec: &ContainerSpec) -> Result<(Bundle, ContainerRecord)> {
        let sandbox = self.ready_sandbox(&spec.sandbox_id)?;
        let (images, reference) = (self.images.clone(), spec.image.clone());
        let image = blocking(move || images.find(&reference))
            .await?
            .ok_or_else(|| RuntimeError::ImageNotPresent(spec.image.clone()))?;
        let sandbox_files = self.sandbox_folder(&spec.sandbox_id);
        let host_network = sandbox.spec.host_network;
        let logs = self.sandbox_logs(&sandbox.spec);
        let record = ContainerRecord {
            spec: spec.clone(),
            image_lock: self.images.image_lock(&image.id),
            layer_root: self.images.layer_root(),
            layers: image.overlay_layers(),
            image_id: image.id,
            image_config: image.config,
            netns: (!host_network).then(|| namespace_path(&sandbox_files)),
            hostname: (!host_network).then(|| sandbox.spec.hostname.clone()).filter(|name| !name.is_empty()),
            sandbox_files,
            cgroup: format!("{}/{}", self.sandbox_cgroup(&spec.sandbox_id), spec.id),
            log_path: logs.join(&spec.name).join(format!("{}.log", spec.attempt)),
            created_at: now(),
        };
        let bundle = Bundle(self.config.root.join("containers").join(&spec.id));
        let making = || format!("making the container {}", spec.name);
        std::fs::create_dir_all(&bundle.0).context(making)?;
        bundle.write_record(&record).context(making)?;
        self.state().containers.insert(spec.id.clone(), Entry::new(&bundle, &record));
        Ok((bundle, record))
    }

    fn spawn_shim(&self, bundle: &Bundle) -> Result<Child> {
        let log = std::fs::File::create(bundle.path("shim.log")).context(|| "making the shim's log".to_owned())?;
        Command::new(&self.config.shim)
            .args(&self.config.shim_args)
            .arg(&bundle.0)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context(|| format!("starting the shim {}", self.config.shim.display()))
    }

    pub(super) fn started(&self, id: &str, started: StartedRecord) -> Option<ContainerStatus> {
        let mut state = self.state();
        let entry = state.containers.get_mut(id)?;
        entry.status.state = ContainerState::Running;
        entry.status.started_at = Some(started.started_at);
        entry.process = Some(started.process);
        Some(entry.status.clone())
    }

    pub(super) fn ended(&self, id: &str, exit: &ExitRecord) {
        let mut state = self.state();
        let Some(entry) = state.containers.get_mut(id) else { return };
        entry.status.state = ContainerState::Exited;
        entry.status.finished_at = Some(exit.finished_at);
        entry.status.exit_code = Some(exit.exit_code);
        entry.status.signal = exit.signal;
        entry.status.reason.clone_from(&exit.reason);
        entry.status.message.clone_from(&exit.message);
        entry.ended.send_replace(true);
    }

    pub(super) fn signal(&self, id: &str, signal: i32) -> Result<()> {
        let process = {
            let state = self.state();
            let entry = state.containers.get(id);
            let entry = entry.ok_or_else(|| RuntimeError::NotFound { kind: "container", id: id.to_owned() })?;
            if entry.status.state == ContainerState::Exited { None } else { entry.process }
        };
        match process {
            Some(process) => process.signal(signal).context(|| format!("signalling container {id}")),
            None => Ok(()),
        }
    }

    /// Changes the limits of a container's control groups, and its record with them.
    pub(super) async fn update(&self, id: &str, resources: ContainerResources) -> Result<()> {
        let (bundle, group) = {
            let state = self.state();
            let running = state.containers.get(id).filter(|entry| entry.status.state == ContainerState::Running);
            let entry =
                running.ok_or_else(|| RuntimeError::NotFound { kind: "running container", id: id.to_owned() })?;
            (entry.bundle.clone(), entry.cgroup.clone())
        };
        blocking(move || {
            limits::set(&group, &resources).context(|| "changing the container's resources".to_owned())?;
            let recording = || "recording the container's resources".to_owned();
            if let Some(mut record) = bundle.record().context(recording)? {
                record.spec.cpu_shares = resources.cpu_shares;
                record.spec.cpu_limit_milli = resources.cpu_limit_milli;
                record.spec.memory_limit_bytes = resources.memory_limit_bytes;
                bundle.write_record(&record).context(recording)?;
            }
            Ok(())
        })
        .await
    }

    /// Kills a container and waits for its exit record.
    pub(super) async fn kill(&self, id: &str) -> Result<()> {
        let (mut ended, group) = {
            let state = self.state();
            let Some(entry) = state.containers.get(id) else { return Ok(()) };
            (entry.ended.subscribe(), entry.cgroup.clone())
        };
        if *ended.borrow() {
            return Ok(());
        }
        self.signal(id, SIGKILL)?;
        if timeout(KILL_DEADLINE, ended.wait_for(|ended| *ended)).await.is_ok() {
            return Ok(());
        }
        // Something in it does not end with its first process.
        blocking(move || cgroup::remove(&group).context(|| "killing the control group".to_owned())).await?;
        match timeout(KILL_DEADLINE, ended.wait_for(|ended| *ended)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(RuntimeError::Other(format!("container {id} does not end although it was killed"))),
        }
    }

    pub(super) async fn remove_container(&self, id: &str) -> Result<()> {
        let Some(sandbox_id) = self.state().containers.get(id).map(|entry| entry.status.sandbox_id.clone()) else {
            return Ok(());
        };
        let lock = self.sandbox_lock(&sandbox_id);
        let _one_at_a_time = lock.lock().await;
        self.discard_container(id).await
    }

    /// The sandbox's lock is held.
    pub(super) async fn discard_container(&self, id: &str) -> Result<()> {
        let (folder, log, group): (PathBuf, PathBuf, String) = {
            let state = self.state();
            let Some(entry) = state.containers.get(id) else { return Ok(()) };
            if entry.status.state != ContainerState::Exited {
                return Err(RuntimeError::Other(format!("container {id} still runs: it must be stopped first")));
            }
            (entry.bundle.0.clone(), entry.status.log_path.clone(), entry.cgroup.clone())
        };
        blocking(move || {
            cgroup::remove(&group).context(|| "removing the control group".to_owned())?;
            files::remove_tree(&log).context(|| format!("removing {}", log.display()))?;
            files::remove_tree(&folder).context(|| format!("removing {}", folder.display()))
        })
        .await?;
        self.state().containers.remove(id);
        Ok(())
    }
}

impl Entry {
    pub(super) fn new(bundle: &Bundle, record: &ContainerRecord) -> Self {
        let spec = &record.spec;
        Self {
            bundle: bundle.clone(),
            cgroup: record.cgroup.clone(),
            status: ContainerStatus {
                id: spec.id.clone(),
                sandbox_id: spec.sandbox_id.clone(),
                name: spec.name.clone(),
                attempt: spec.attempt,
                image: spec.image.clone(),
                image_id: record.image_id.clone(),
                state: ContainerState::Created,
                created_at: record.created_at,
                started_at: None,
                finished_at: None,
                exit_code: None,
                signal: None,
                reason: String::new(),
                message: String::new(),
                log_path: record.log_path.clone(),
                annotations: spec.annotations.clone(),
            },
            process: None,
            ended: watch::Sender::new(false),
        }
    }
}
