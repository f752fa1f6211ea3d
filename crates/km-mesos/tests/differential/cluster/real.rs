//! Apache Mesos: the script `real-mesos` starts and stops its processes.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Setup;

/// The processes of one cluster.
#[derive(Clone)]
pub struct Real(Arc<Controlled>);

struct Controlled {
    program: PathBuf,
    folder: PathBuf,
    ended: AtomicBool,
}

impl Real {
    /// Starts a master and agents; tells the master's port.
    pub fn start_all(setup: &Setup, folder: &Path) -> Result<(Self, u16)> {
        let variable = |name: &str| {
            let value = env::var_os(name).map(PathBuf::from);
            value.with_context(|| format!("{name} is not set: run this suite by `cargo xtask test`"))
        };
        let (program, installed) = (variable("KM_TEST_REAL_MESOS")?, variable("KM_TEST_MESOS")?);
        for part in ["bin", "lib"] {
            let target = installed.join(part);
            ensure!(target.is_dir(), "{} is missing: run this suite by `cargo xtask test`", target.display());
            symlink(target, folder.join(part))?;
        }
        let port = km_testkit::free_ports(u16::try_from(1 + setup.agents)?);
        let mut up = Command::new(&program);
        up.arg("up").arg(folder).args(["--agents", &setup.agents.to_string(), "--port", &port.to_string()]);
        for flag in setup.master_flags(folder) {
            up.args(["--master-flag", &flag]);
        }
        for flag in setup.agent_flags(folder) {
            up.args(["--agent-flag", &flag]);
        }
        if let Some(login) = setup.login {
            up.args(["--login", login]);
        }
        let done = up.output().with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(done.status.success(), "real-mesos up: {}", String::from_utf8_lossy(&done.stderr));
        let controlled = Controlled { program, folder: folder.to_owned(), ended: AtomicBool::new(false) };
        Ok((Self(Arc::new(controlled)), port))
    }

    pub fn signal(&self, name: &str, signal: &str) -> Result<()> {
        self.control("stop", &[name, "--signal", signal])
    }

    /// The script starts a part by the command line in its record, so that is where flags are changed.
    pub fn start(&self, name: &str, changed: &[&str]) -> Result<()> {
        let record = self.0.folder.join(format!("run/{name}.json"));
        let mut content: Value = serde_json::from_slice(&fs::read(&record)?)?;
        let words = content["argv"].as_array_mut().context("the record has no command line")?;
        for flag in changed {
            let (flag_name, _) = flag.split_once('=').context("a flag has the form name=value")?;
            words.retain(|word| !word.as_str().is_some_and(|word| word.starts_with(&format!("--{flag_name}="))));
            words.push(format!("--{flag}").into());
        }
        fs::write(&record, content.to_string())?;
        self.control("start", &[name])
    }

    pub fn runs(&self, name: &str) -> Result<bool> {
        let shown = self.0.control("status", &[])?;
        Ok(shown.lines().any(|line| line.starts_with(name) && line.contains(" pid ")))
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.0.folder.join(format!("run/logs/{name}.log"))
    }

    pub fn down(&self) -> Result<()> {
        self.0.ended.store(true, Ordering::Relaxed);
        self.control("down", &[])
    }

    fn control(&self, verb: &str, words: &[&str]) -> Result<()> {
        self.0.control(verb, words).map(drop)
    }
}

impl Controlled {
    /// What the script says.
    fn control(&self, verb: &str, words: &[&str]) -> Result<String> {
        let own: [&OsStr; 2] = [verb.as_ref(), self.folder.as_ref()];
        let done = Command::new(&self.program).args(own).args(words).output()?;
        ensure!(done.status.success(), "real-mesos {verb} {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

impl Drop for Controlled {
    /// After a panic: the processes would stay.
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed)
            && let Err(error) = self.control("down", &[])
        {
            eprintln!("{error:#}");
        }
    }
}
