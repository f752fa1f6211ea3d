//! The minion's shell: children as processes, time as sleeps.

use std::{
    env,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::Context;
use nix::sys::signal::Signal;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::{
    Flags,
    child::{Child, Spec},
    log_file::LogFile,
    supervisor::{Action, Event, Role, Supervisor},
};

/// Runs the minion in the current directory, which is the sandbox, until the executor ends or `stop` is cancelled.
/// Returns the exit code for the process.
pub async fn run(flags: Flags, stop: CancellationToken) -> anyhow::Result<u8> {
    let program = env::current_exe().context("cannot find this program's own file")?;
    let sandbox = env::current_dir().context("cannot find the current directory")?;
    supervise(&flags, &program, &sandbox, stop).await
}

async fn supervise(flags: &Flags, program: &Path, sandbox: &Path, stop: CancellationToken) -> anyhow::Result<u8> {
    let specs = Specs::new(flags, program, sandbox);
    let (events, mut received) = unbounded_channel();
    let started = Instant::now();
    let mut children = Children { executor: None, proxy: None };
    let (mut supervisor, mut actions) = Supervisor::start(flags.run_proxy);
    let mut told = false;
    loop {
        for action in actions {
            if let Some(code) = children.perform(action, &specs, &events) {
                return Ok(code);
            }
        }
        let wait = supervisor.next_deadline().map(|at| at.saturating_sub(started.elapsed()));
        let event = tokio::select! {
            Some(event) = received.recv() => event,
            () = sleep(wait) => Event::Tick,
            () = stop.cancelled(), if !told => {
                told = true;
                Event::Stop
            }
        };
        tracing::info!(?event, "minion");
        actions = supervisor.handle(started.elapsed(), event);
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

struct Children {
    executor: Option<Child>,
    proxy: Option<Child>,
}

impl Children {
    /// Carries out an action. Returns the code when the minion is to end.
    fn perform(&mut self, action: Action, specs: &Specs, events: &UnboundedSender<Event>) -> Option<u8> {
        match action {
            Action::Start(role) => self.start(role, specs, events),
            Action::Terminate(role) => self.signal(role, Signal::SIGTERM),
            Action::Kill(role) => self.signal(role, Signal::SIGKILL),
            Action::End(code) => return Some(code),
        }
        None
    }

    fn start(&mut self, role: Role, specs: &Specs, events: &UnboundedSender<Event>) {
        let spec = specs.of(role);
        match Child::start(spec, events.clone()) {
            Ok(child) => *self.of(role) = Some(child),
            Err(error) => {
                tracing::error!(?role, program = %spec.program.display(), %error, "cannot start");
                if events.send(Event::NotStarted(role)).is_err() {
                    tracing::debug!("the minion has ended");
                }
            }
        }
    }

    fn signal(&mut self, role: Role, signal: Signal) {
        if let Some(child) = self.of(role) {
            child.signal(signal);
        }
    }

    fn of(&mut self, role: Role) -> &mut Option<Child> {
        match role {
            Role::Executor => &mut self.executor,
            Role::Proxy => &mut self.proxy,
        }
    }
}

struct Specs {
    executor: Spec,
    proxy: Spec,
}

impl Specs {
    fn new(flags: &Flags, program: &Path, sandbox: &Path) -> Self {
        let mut environment = Vec::new();
        // Programs that are shipped with the pods' runtime may lie in the sandbox.
        if let Ok(path) = env::var("PATH") {
            environment.push(("PATH".to_owned(), format!("{path}:{}", sandbox.join("bin").display())));
        }
        let container = env::var("MESOS_DIRECTORY").ok().map(PathBuf::from);
        if let Some(id) = container.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()) {
            environment.push(("MESOS_EXECUTOR_CONTAINER_UUID".to_owned(), id.to_owned()));
        }
        let spec = |role, command: &str, more: &[String]| {
            let own = flags.proxy_kubeconfig.as_ref().filter(|_| role == Role::Proxy);
            let mut arguments = vec![
                command.to_owned(),
                format!("--kubeconfig={}", own.unwrap_or(&flags.kubeconfig).display()),
                format!("--hostname-override={}", flags.hostname_override),
            ];
            arguments.extend(more.iter().cloned());
            Spec {
                role,
                program: program.to_owned(),
                arguments,
                environment: environment.clone(),
                directory: sandbox.to_owned(),
                log: LogFile {
                    path: sandbox.join(format!("{command}.log")),
                    max_size: flags.log_max_size,
                    max_backups: flags.log_max_backups,
                    max_age: Duration::from_secs(86_400) * flags.log_max_age,
                },
            }
        };
        Self {
            executor: spec(Role::Executor, "executor", &flags.executor_arg),
            proxy: spec(Role::Proxy, "proxy", &flags.proxy_arg),
        }
    }

    fn of(&self, role: Role) -> &Spec {
        match role {
            Role::Executor => &self.executor,
            Role::Proxy => &self.proxy,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// A stand-in for `km` that does by its command what the script says.
    fn program(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("km");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn flags() -> Flags {
        Flags {
            kubeconfig: "/kube".into(),
            proxy_kubeconfig: None,
            hostname_override: "node".to_owned(),
            run_proxy: true,
            log_max_size: 1 << 20,
            log_max_backups: 1,
            log_max_age: 1,
            executor_arg: vec!["--x=1".to_owned()],
            proxy_arg: Vec::new(),
        }
    }

    async fn wait_for(path: &Path) -> String {
        loop {
            match fs::read_to_string(path) {
                Ok(text) if text.contains('\n') => return text,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    #[tokio::test]
    async fn the_executors_code_is_the_minions_and_the_proxy_ends_with_it() {
        let sandbox = tempfile::tempdir().unwrap();
        let script = r#"case $1 in
            executor) while [ ! -e proxy.started ]; do sleep 0.01; done; echo "$@"; echo oops >&2; exit 42;;
            proxy) trap 'touch proxy.ended; exit 0' TERM; touch proxy.started; while :; do sleep 0.01; done;;
        esac"#;
        let program = program(sandbox.path(), script);
        let code = supervise(&flags(), &program, sandbox.path(), CancellationToken::new()).await.unwrap();
        assert_eq!(code, 42);
        assert!(sandbox.path().join("proxy.ended").exists());
        let log = fs::read_to_string(sandbox.path().join("executor.log")).unwrap();
        assert!(log.contains("executor --kubeconfig=/kube --hostname-override=node --x=1\n"), "{log}");
        assert!(log.contains("oops\n"), "{log}");
    }

    #[tokio::test]
    async fn stop_terminates_the_children() {
        let sandbox = tempfile::tempdir().unwrap();
        let script = r#"trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done"#;
        let program = program(sandbox.path(), script);
        let stop = CancellationToken::new();
        let path = sandbox.path().to_owned();
        let minion = tokio::spawn({
            let stop = stop.clone();
            async move { supervise(&flags(), &program, &path, stop).await }
        });
        for log in ["executor.log", "proxy.log"] {
            assert_eq!(wait_for(&sandbox.path().join(log)).await, "up\n");
        }
        stop.cancel();
        assert_eq!(minion.await.unwrap().unwrap(), 5);
    }

    #[tokio::test]
    async fn an_executor_that_cannot_start_is_an_error_code() {
        let sandbox = tempfile::tempdir().unwrap();
        let absent = sandbox.path().join("absent");
        let flags = Flags { run_proxy: false, ..flags() };
        assert_eq!(supervise(&flags, &absent, sandbox.path(), CancellationToken::new()).await.unwrap(), 1);
    }
}
