//! One child process: started in its own process group, its output in a log file.

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    sync::mpsc::UnboundedSender,
};

use crate::{
    log_file::{LogFile, Writer},
    supervisor::{Event, Role},
};

/// How to start a child.
#[derive(Clone, Debug)]
pub struct Spec {
    pub role: Role,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub directory: PathBuf,
    pub log: LogFile,
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    group: Option<Pid>,
}

impl Child {
    /// Starts the child. Its end is reported as an event.
    pub fn start(spec: &Spec, events: UnboundedSender<Event>) -> std::io::Result<Self> {
        let mut command = Command::new(&spec.program);
        command.args(&spec.arguments).envs(spec.environment.iter().cloned()).current_dir(&spec.directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let streams: [Option<Box<dyn AsyncRead + Send + Unpin>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        let (lines, log) = tokio::sync::mpsc::channel(64);
        for stream in streams.into_iter().flatten() {
            tokio::spawn(read(stream, lines.clone()));
        }
        drop(lines);
        let writing = tokio::task::spawn_blocking({
            let file = spec.log.clone();
            move || write(file, log)
        });
        let role = spec.role;
        tokio::spawn(async move {
            let code = match child.wait().await {
                Ok(status) => code(status),
                Err(error) => {
                    tracing::error!(?role, %error, "cannot wait for a child");
                    1
                }
            };
            // Children of the child may hold the log open; they are not waited for.
            if tokio::time::timeout(std::time::Duration::from_millis(500), writing).await.is_err() {
                tracing::debug!(?role, "the log is still held open");
            }
            if events.send(Event::Exited(role, code)).is_err() {
                tracing::debug!("the minion has ended");
            }
        });
        Ok(Self { group })
    }

    /// Sends a signal to the child's process group. A group that is gone needs none.
    pub fn signal(&self, signal: Signal) {
        let Some(group) = self.group else { return };
        match killpg(group, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => tracing::error!(%group, %signal, %error, "cannot signal a child"),
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}

async fn read(mut stream: Box<dyn AsyncRead + Send + Unpin>, lines: tokio::sync::mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = stream.read(&mut buffer).await {
        if count == 0 || lines.send(buffer[..count].to_vec()).await.is_err() {
            return;
        }
    }
}

/// Writes what comes. A log that cannot be written is said once, and read on, so that the child doesn't block.
fn write(file: LogFile, mut lines: tokio::sync::mpsc::Receiver<Vec<u8>>) {
    let mut failed = false;
    let path = file.path.clone();
    let mut writer = Writer::new(file);
    while let Some(bytes) = lines.blocking_recv() {
        match writer.write(&bytes) {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                say(&path, &error);
            }
            Err(_) => {}
        }
    }
}

fn say(path: &Path, error: &std::io::Error) {
    tracing::error!(path = %path.display(), %error, "cannot write a log file");
}
