//! Disks that are full and files that are damaged.

use std::{fs, path::Path, process::Command};

use km_testkit::{Kubectl, Process, eventually, free_port};
use nix::sys::signal::Signal;

use crate::{cluster, km, turn};

#[test]
fn a_damaged_data_file_is_named_with_a_way_out() {
    let mut turn = cluster(&["--agents", "1"]);
    turn.cluster.stop();
    let file = turn.cluster.data_dir().join("apiserver/objects.redb");
    let length = fs::metadata(&file).unwrap().len();
    fs::write(&file, vec![0x5a; length as usize]).unwrap();
    let output = turn.cluster.km("up --agents 1 --kubeconfig /dev/null").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("objects.redb") && text.contains("km reset"), "{text}");
}

/// A small file system in memory; unmounted when it goes.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(megabytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status().unwrap();
        assert!(status.success(), "cannot mount a tmpfs");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, so that a process which a failed test left cannot hold it.
        let _best_effort = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_writes_by_name_and_goes_on_reading() {
    let _turn = turn();
    let disk = SmallDisk::mount(16);
    let log = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command = Command::new(km());
    command.arg("apiserver").arg("--data-dir").arg(disk.path()).arg(format!("--secure-port={port}"));
    let mut server = Process::start(&mut command, &log.path().join("apiserver.log"));
    let kubeconfig = log.path().join("kubeconfig");
    eventually("the API server is ready", || {
        fs::copy(disk.path().join("admin.kubeconfig"), &kubeconfig).map_err(|error| error.to_string())?;
        Kubectl::new(&kubeconfig).try_run("get --raw /livez")
    });
    let kubectl = Kubectl::new(&kubeconfig);
    kubectl.run("create configmap before --from-literal=a=1");
    let filler = disk.path().join("filler");
    let full =
        Command::new("dd").args(["if=/dev/zero", "bs=64k", &format!("of={}", filler.display())]).output().unwrap();
    assert!(!full.status.success(), "the disk must be full");

    let big = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{generateName: big-}}\ndata: {{text: {}}}\n",
        "x".repeat(400_000)
    );
    let error = eventually("a write is refused", || match kubectl.try_with_input("create -f -", &big) {
        Err(error) => Ok(error),
        Ok(text) => Err(text),
    });
    assert!(error.contains("disk") || error.contains("space"), "{error}");
    assert_eq!(kubectl.run("get configmap before -o jsonpath={.data.a}"), "1");

    fs::remove_file(filler).unwrap();
    eventually("writes work again", || kubectl.try_run("create configmap after"));
    assert!(server.stop(Signal::SIGTERM).success(), "{}", server.output());
}
