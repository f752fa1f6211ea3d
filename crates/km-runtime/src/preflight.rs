//! What the embedded runtime needs of a machine, tried out one by one.

use std::fs;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::{cgroup, net};

const CGROUPS: &str = "mount control groups writable, with the controllers cpu and memory";

/// One requirement, whether it is met, and what to do when it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    /// Pods cannot run without it.
    pub required: bool,
    /// `Err`: what is wrong and a way out.
    pub result: Result<(), String>,
}

impl Check {
    pub fn ok(&self) -> bool {
        self.result.is_ok()
    }
}

/// Tries out everything; changes nothing that stays.
pub async fn preflight() -> Vec<Check> {
    let check = |name, required, result| Check { name, required, result };
    let is_root = nix::unistd::geteuid().is_root();
    let mut checks = vec![check("root", true, root(is_root))];
    if !is_root {
        // The others would only repeat that.
        return checks;
    }
    checks.push(check("overlayfs", true, overlayfs()));
    checks.push(check("cgroups", true, with_way_out(cgroup::check_writable(), CGROUPS)));
    let links = net::check_links().await.map_err(|error| error.to_string());
    checks.push(check("network", true, with_way_out(links, "use a kernel with bridge and veth, and CAP_NET_ADMIN")));
    let nft = net::check_nft().await.map_err(|error| error.to_string());
    let way_out = "install the package nftables; until then host ports go through a slower forwarder, and pods reach \
                   nothing outside this machine";
    checks.push(check("nftables", false, with_way_out(nft, way_out)));
    checks
}

fn with_way_out(result: Result<(), String>, way_out: &str) -> Result<(), String> {
    result.map_err(|reason| format!("{reason}; {way_out}"))
}

fn root(is_root: bool) -> Result<(), String> {
    if is_root { Ok(()) } else { Err("not root: containers, networks and control groups need it; use sudo".to_owned()) }
}

/// Mounts one and looks through it. Not in the usual temporary folder alone: an overlay on an overlay does not work,
/// and where the state lies is what matters, but that is not known here.
fn overlayfs() -> Result<(), String> {
    let tried = (|| -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        for name in ["lower", "upper", "work", "root"] {
            fs::create_dir(path(name))?;
        }
        fs::write(path("lower").join("file"), "")?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            path("lower").display(),
            path("upper").display(),
            path("work").display()
        );
        let options = std::ffi::CString::new(options)?;
        mount("overlay", path("root"), "overlay", MountFlags::empty(), Some(options.as_c_str()))?;
        let seen = path("root").join("file").is_file();
        unmount(path("root"), UnmountFlags::DETACH)?;
        if seen { Ok(()) } else { Err(std::io::Error::other("the mounted overlay is empty")) }
    })();
    tried.map_err(|error| {
        format!(
            "no overlay can be mounted: {error}; use a kernel with overlayfs, and a state folder that is no overlay"
        )
    })
}
