//! The life of one shim, from start to the exit record.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use libcontainer::{container::builder::ContainerBuilder, syscall::syscall::SyscallType};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{
    executor::{ExecFailure, ReportingExecutor},
    logs::LogFile,
    mounts, rootfs,
};
use crate::{
    bundle::{Bundle, ContainerRecord, ExitRecord, ShimReport, StartedRecord},
    cgroup,
    crilog::Stream,
    files::{now, open_lock, try_lock, write_json},
    images,
    process::ProcessRef,
    spec::{self, Device, Machine},
    user,
};

/// Docker's code for "the container could not be created".
const CANNOT_CREATE: i32 = 128;

pub fn run(bundle: &Bundle) -> i32 {
    // Fails only for a leader of a process group, which is then as independent as it needs to be.
    let _already_leader = nix::unistd::setsid();
    // Who started us may have no use for huge pages; the container decides for itself.
    if let Err(error) = nix::sys::prctl::set_thp_disable(false) {
        eprintln!("huge pages stay switched off: {error}");
    }
    match supervise(bundle) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn supervise(bundle: &Bundle) -> io::Result<()> {
    let mut report = take_stdout()?;
    let lock = open_lock(&bundle.lock_path())?;
    if !try_lock(&lock)? {
        return Err(io::Error::other("the container has a shim already"));
    }
    if bundle.exit()?.is_some() || bundle.started()?.is_some() {
        return Err(io::Error::other("the container was started before"));
    }
    let record = bundle.record()?.ok_or_else(|| io::Error::other("the folder has no container.json"))?;
    let own = i32::try_from(std::process::id()).ok().and_then(ProcessRef::of);
    bundle.write_shim(own.ok_or_else(|| io::Error::other("/proc does not show this process"))?)?;

    match start(bundle, &record) {
        Ok(running) => {
            bundle.write_started(&running.started)?;
            // Nobody reads when the starter has died; whoever comes next reads the file.
            let _starter_gone = send(&mut report, &ShimReport::Started(running.started));
            drop(report);
            watch(bundle, &record, running)
        }
        Err(failure) => {
            let exit = ExitRecord {
                exit_code: failure.exit_code,
                signal: None,
                finished_at: now(),
                reason: ExitRecord::CANNOT_RUN.to_owned(),
                message: failure.message,
            };
            cgroup::remove(&record.cgroup)?;
            bundle.write_exit(&exit)?;
            let _starter_gone = send(&mut report, &ShimReport::Failed(exit));
            Ok(())
        }
    }
}

/// The report goes to what was standard output; from now on nothing else is written there.
fn take_stdout() -> io::Result<File> {
    let report = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    Ok(report)
}

fn send(report: &mut File, message: &ShimReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    report.write_all(&line)
}

struct Running {
    started: StartedRecord,
    stdout: OwnedFd,
    stderr: OwnedFd,
    log: LogFile,
    _image: File,
}

/// A step that failed before the program ran.
fn failed(step: &str) -> impl FnOnce(io::Error) -> ExecFailure + '_ {
    move |error| ExecFailure { exit_code: CANNOT_CREATE, message: format!("{step}: {error}") }
}

fn start(bundle: &Bundle, record: &ContainerRecord) -> Result<Running, ExecFailure> {
    let log = LogFile::open(&record.log_path).map_err(failed("opening the log"))?;
    let image = images::hold(&record.image_lock).map_err(failed("locking the image"))?;
    enter_network(record).map_err(failed("entering the pod's network"))?;
    mounts::isolate().map_err(failed("leaving the host's mount namespace"))?;
    mounts::release_namespaces().map_err(failed("releasing namespaces"))?;
    mounts::mount_root(bundle, record).map_err(failed("mounting the image"))?;
    configure(bundle, record)?;

    let (stdout, stdout_writer) = io::pipe().map_err(failed("making a pipe"))?;
    let (stderr, stderr_writer) = io::pipe().map_err(failed("making a pipe"))?;
    let (exec_report, exec_writer) = io::pipe().map_err(failed("making a pipe"))?;
    let stdin = File::open("/dev/null").map_err(failed("opening /dev/null"))?;
    let state = bundle.path("state");
    fs::create_dir_all(&state).map_err(failed("making the state folder"))?;

    let cannot_create = |error: &dyn std::error::Error| ExecFailure { exit_code: CANNOT_CREATE, message: chain(error) };
    let mut container = ContainerBuilder::new("container".to_owned(), SyscallType::default())
        .with_root_path(&state)
        .map_err(|error| cannot_create(&error))?
        .with_executor(ReportingExecutor { report: exec_writer.as_raw_fd() })
        .with_stdin(stdin)
        .with_stdout(stdout_writer)
        .with_stderr(stderr_writer)
        .as_init(&bundle.0)
        .with_systemd(false)
        .with_detach(true)
        .build()
        .map_err(|error| cannot_create(&error))?;
    container.start().map_err(|error| cannot_create(&error))?;
    drop(exec_writer);
    let pid = container.pid().map(|pid| pid.as_raw()).unwrap_or_default();
    if let Some(failure) = exec_failure(exec_report).map_err(failed("starting the program"))? {
        // It ends by itself right after its report.
        let _ended = waitpid(Pid::from_raw(pid), None);
        return Err(failure);
    }
    // A program that has ended already keeps its pid until we wait for it, but `of` calls it dead.
    let process = ProcessRef::of(pid).unwrap_or(ProcessRef { pid, start_ticks: 0 });
    let started = StartedRecord { process, started_at: now() };
    Ok(Running { started, stdout: stdout.into(), stderr: stderr.into(), log, _image: image })
}

fn enter_network(record: &ContainerRecord) -> io::Result<()> {
    let Some(path) = &record.netns else { return Ok(()) };
    Ok(nix::sched::setns(File::open(path)?, nix::sched::CloneFlags::CLONE_NEWNET)?)
}

/// Writes `config.json` from the record and what the image's files say.
fn configure(bundle: &Bundle, record: &ContainerRecord) -> Result<(), ExecFailure> {
    let root = bundle.path("rootfs");
    let refused = |message| ExecFailure { exit_code: CANNOT_CREATE, message };
    let passwd = rootfs::read_text(&root, "/etc/passwd").map_err(failed("reading the image's /etc/passwd"))?;
    let group = rootfs::read_text(&root, "/etc/group").map_err(failed("reading the image's /etc/group"))?;
    let (image, asked) = (&record.image_config, &record.spec);
    let identity =
        user::resolve(&image.user, asked.run_as_user, asked.run_as_group, &passwd, &group).map_err(refused)?;
    let folder = spec::working_dir(record);
    rootfs::make_folder(&root, &folder).map_err(failed("making the working directory"))?;
    let machine = machine(asked.privileged).map_err(failed("reading what this machine allows"))?;
    let config = spec::build(record, &identity, &machine).map_err(refused)?;
    write_json(&bundle.path("config.json"), &config).map_err(failed("writing config.json"))
}

fn machine(privileged: bool) -> io::Result<Machine> {
    let status = fs::read_to_string("/proc/self/status")?;
    let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let capability_bounds = bounds.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    Ok(Machine { capability_bounds, devices: if privileged { devices()? } else { Vec::new() } })
}

/// Nodes directly in `/dev`. The usual ones are made by libcontainer itself.
fn devices() -> io::Result<Vec<Device>> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    const MADE_ANYWAY: [&str; 9] = ["null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "core"];
    let mut devices = Vec::new();
    for entry in fs::read_dir("/dev")? {
        let entry = entry?;
        let metadata = fs::symlink_metadata(entry.path())?;
        let kind = metadata.file_type();
        let kind = match (kind.is_char_device(), kind.is_block_device()) {
            (true, _) => 'c',
            (_, true) => 'b',
            _ => continue,
        };
        if entry.file_name().to_str().is_some_and(|name| MADE_ANYWAY.contains(&name)) {
            continue;
        }
        devices.push(Device {
            path: entry.path(),
            kind,
            major: rustix::fs::major(metadata.rdev()),
            minor: rustix::fs::minor(metadata.rdev()),
            mode: metadata.mode() & 0o7777,
        });
    }
    Ok(devices)
}

/// Waits until the program runs (`None`) or could not.
fn exec_failure(mut report: io::PipeReader) -> io::Result<Option<ExecFailure>> {
    let mut text = Vec::new();
    report.read_to_end(&mut text)?;
    if text.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&text)?)) }
}

fn watch(bundle: &Bundle, record: &ContainerRecord, running: Running) -> io::Result<()> {
    let copies = [running.log.copy(Stream::Stdout, running.stdout), running.log.copy(Stream::Stderr, running.stderr)];
    if let Err(error) = mounts::release_rest(bundle, &record.log_path) {
        eprintln!("releasing mounts: {error}");
    }
    let (code, signal) = wait(Pid::from_raw(running.started.process.pid))?;
    let finished_at = now();
    for copy in copies {
        match copy.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("copying the log: {error}"),
            Err(_panic) => eprintln!("copying the log ended abnormally"),
        }
    }
    let oom = code != 0 && cgroup::oom_kills(&record.cgroup)? > 0;
    if let Err(error) = cgroup::remove(&record.cgroup) {
        eprintln!("{error}");
    }
    let reason = match (oom, code) {
        (true, _) => "OOMKilled",
        (_, 0) => "Completed",
        _ => "Error",
    };
    bundle.write_exit(&ExitRecord {
        exit_code: code,
        signal,
        finished_at,
        reason: reason.to_owned(),
        message: String::new(),
    })
}

/// The exit code, and the signal when one ended the process.
fn wait(pid: Pid) -> io::Result<(i32, Option<i32>)> {
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok((code, None)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok((128 + signal as i32, Some(signal as i32))),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
