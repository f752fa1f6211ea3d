//! Starts a container's process: in a session of its own, in its sandbox, with its output there.

use std::{fs::File, process::Stdio};

use anyhow::{Context, anyhow};
use km_mesos_core::agent::Launch;
use nix::{
    sys::prctl::set_thp_disable,
    unistd::{User, geteuid, setsid},
};
use tokio::process::{Child, Command};

pub(super) fn spawn(launch: &Launch) -> anyhow::Result<Child> {
    let mut command = command_line(launch)?;
    command.current_dir(&launch.sandbox).env_clear().envs(inherited()).envs(launch.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(output(launch, "stdout")?).stderr(output(launch, "stderr")?);
    if let Some(user) = user_of(launch)? {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).env("HOME", &user.dir).env("USER", &user.name);
    }
    // SAFETY: both are single system calls and async-signal-safe, and nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // What the agent wants for itself is not for its containers.
            set_thp_disable(false)?;
            setsid()?;
            Ok(())
        });
    }
    // A container outlives the agent, so dropping the handle must not end it; that is tokio's default.
    command.spawn().with_context(|| format!("cannot start {:?}", launch.command.value()))
}

/// `shell: true` (the default) runs `value` by `sh -c`, otherwise `value` is the program and `arguments` its argv.
fn command_line(launch: &Launch) -> anyhow::Result<Command> {
    let spec = &launch.command;
    let value = spec.value.clone().ok_or_else(|| anyhow!("CommandInfo.value must be set"))?;
    if spec.shell() {
        let mut command = Command::new("/bin/sh");
        command.arg0("sh").args(["-c", &value]);
        return Ok(command);
    }
    // A relative path is meant from the sandbox.
    let program =
        if value.contains('/') && !value.starts_with('/') { format!("{}/{value}", launch.sandbox) } else { value };
    let mut command = Command::new(program);
    if let Some((first, rest)) = spec.arguments.split_first() {
        command.arg0(first).args(rest);
    }
    Ok(command)
}

/// The agent's own environment goes on to its executors, but for what tells a Mesos process who it is.
fn inherited() -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        !name.starts_with("MESOS_") && !name.starts_with("LIBPROCESS_")
    })
}

fn output(launch: &Launch, name: &str) -> anyhow::Result<File> {
    let path = format!("{}/{name}", launch.sandbox);
    let opened = File::options().create(true).append(true).open(&path);
    opened.with_context(|| format!("cannot open {path}"))
}

/// The user to become: the one asked for, if the agent is root and that is somebody else.
pub(super) fn user_of(launch: &Launch) -> anyhow::Result<Option<User>> {
    let Some(name) = launch.user.as_deref().filter(|name| !name.is_empty()) else { return Ok(None) };
    if !geteuid().is_root() || name == "root" {
        return Ok(None);
    }
    let user = User::from_name(name).with_context(|| format!("cannot look up user {name:?}"))?;
    user.map(Some).ok_or_else(|| anyhow!("no user is called {name:?}"))
}
