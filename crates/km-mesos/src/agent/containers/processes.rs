//! The processes of a container, found in `/proc`: its first process, the sessions and descendants of that, and
//! whatever carries the container's sandbox in its environment (so that daemons that left their session are found too).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// First and longest pause between two looks at processes that were killed.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Tree {
    marker: Vec<u8>,
    root: Option<u32>,
}

struct Process {
    parent: u32,
    session: u32,
    zombie: bool,
    start_time: u64,
}

impl Tree {
    /// The processes of the container with that sandbox and, if that is alive, that first process.
    pub fn of(sandbox: &str, root: Option<u32>) -> Self {
        Self { marker: format!("MESOS_DIRECTORY={sandbox}").into_bytes(), root }
    }

    /// Sends SIGTERM to all.
    pub fn terminate(&self) {
        for pid in self.find() {
            send(pid, Signal::SIGTERM);
        }
    }

    /// Kills all, and returns when none is left.
    pub async fn kill(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let found = self.find();
            if found.is_empty() {
                return;
            }
            if pause == LONGEST_PAUSE {
                tracing::warn!(?found, "processes of a container do not die");
            }
            for pid in found {
                send(pid, Signal::SIGKILL);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The living processes of the container.
    fn find(&self) -> BTreeSet<u32> {
        let all = processes();
        let mut found: BTreeSet<u32> = self.root.into_iter().filter(|root| all.contains_key(root)).collect();
        found.extend(all.keys().filter(|pid| self.is_marked(**pid)));
        loop {
            let related = |process: &Process| found.contains(&process.parent) || found.contains(&process.session);
            let more: Vec<u32> = all
                .iter()
                .filter(|(pid, process)| !found.contains(pid) && related(process))
                .map(|(pid, _)| *pid)
                .collect();
            if more.is_empty() {
                break;
            }
            found.extend(more);
        }
        found.retain(|pid| all.get(pid).is_some_and(|process| !process.zombie));
        found
    }

    fn is_marked(&self, pid: u32) -> bool {
        // Unreadable: another user's, or gone.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        environment.split(|byte| *byte == 0).any(|variable| variable == self.marker)
    }
}

fn send(pid: u32, signal: Signal) {
    let Ok(pid) = i32::try_from(pid) else { return };
    if let Err(error) = kill(Pid::from_raw(pid), signal) {
        tracing::debug!(pid, %error, "cannot signal a process; it is probably gone");
    }
}

fn processes() -> BTreeMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, read(pid)?))).collect()
}

fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses itself.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    Some(Process {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// When a living process was started, in clock ticks since the machine's start.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    read(pid).filter(|process| !process.zombie).map(|process| process.start_time)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::process::CommandExt, process::Command};

    use super::*;

    #[tokio::test]
    async fn a_tree_holds_children_and_daemons_and_is_killed_whole() {
        let sandbox = tempfile::tempdir().unwrap();
        let path = sandbox.path().to_str().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sleep 1000 & sleep 1000 & wait"]).env("MESOS_DIRECTORY", path).process_group(0);
        let mut child = shell.spawn().unwrap();
        let tree = Tree::of(path, None);
        while tree.find().len() < 3 {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
        assert!(tree.find().contains(&child.id()));
        let wait = tokio::task::spawn_blocking(move || child.wait());
        tree.kill().await;
        assert!(tree.find().is_empty());
        assert!(!wait.await.unwrap().unwrap().success());
    }
}
