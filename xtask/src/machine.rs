//! What the tests need of the machine: Debian packages, said by name before they are installed.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::shell::{answers, run};

/// A file that a package brings, and the package.
const NEEDED: [(&str, &str); 9] = [
    ("/usr/sbin/nft", "nftables"),
    ("/bin/busybox", "busybox-static"),
    ("/usr/bin/docker-registry", "docker-registry"),
    ("/usr/bin/curl", "curl"),
    ("/usr/bin/unzip", "unzip"),
    ("/usr/bin/g++", "g++"),
    ("/usr/bin/ld", "binutils"),
    ("/usr/bin/java", "default-jre-headless"),
    // Not `zookeeper`: that wants a desktop's Java.
    ("/usr/share/java/zookeeper.jar", "libzookeeper-java"),
];

/// Installs the Debian packages that are missing.
pub fn prepare() -> Result<()> {
    let mut missing: Vec<&str> =
        NEEDED.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if !answers("python3", &["-m", "pip", "--version"]) {
        missing.push("python3-pip");
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !answers("apt-get", &["--version"]) {
        bail!("the tests need these Debian packages, and there is no apt-get here: {}", missing.join(" "));
    }
    eprintln!("installing Debian packages that the tests need: {}", missing.join(" "));
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq").args(words);
        run(&mut command)
    };
    apt(&["update"])?;
    let install = [&["install", "-y", "--no-install-recommends"][..], &missing].concat();
    apt(&install).with_context(|| format!("install them by hand: apt-get install {}", missing.join(" ")))
}
