//! A pod's network namespace. It is made by a thread that ends afterwards, so no thread of the async runtime ever
//! changes its namespace, and kept by a bind mount.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use nix::sched::{CloneFlags, unshare};
use rtnetlink::{LinkBridgePort, LinkUnspec, LinkVeth, RouteMessageBuilder, packet_route::route::RouteScope};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::{links::Netlink, other, write_sysctl};
use crate::{
    Result, RuntimeError,
    files::{Context, absent_is_fine},
};

const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

pub(super) struct Setup {
    /// Where the namespace is kept.
    pub path: PathBuf,
    pub bridge: String,
    /// Name of the host's end of the pod's link.
    pub link: String,
    pub ip: Ipv4Addr,
    pub gateway: Ipv4Addr,
}

pub(super) async fn create(setup: Setup) -> Result<()> {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("netns".to_owned())
        .spawn(move || {
            let outcome = create_in_this_thread(&setup);
            if outcome.is_err() {
                // The error that made it fail is the one to tell.
                let _first_error_counts = remove(&setup.path);
            }
            let _nobody_waits = done.send(outcome);
        })
        .context(|| "starting a thread".to_owned())?;
    result.await.map_err(|_| RuntimeError::Other("making a network namespace ended abnormally".to_owned()))?
}

fn create_in_this_thread(setup: &Setup) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .context(|| "starting a runtime".to_owned())?;
    runtime.block_on(async {
        // A netlink socket stays in the namespace in which it was opened: this one is the host's.
        let host = Netlink::open()?;
        fs::write(&setup.path, "").context(|| format!("making {}", setup.path.display()))?;
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(io::Error::from)
            .context(|| "making a network namespace".to_owned())?;
        mount_bind(OWN_NAMESPACE, &setup.path)
            .map_err(io::Error::from)
            .context(|| format!("keeping the network namespace at {}", setup.path.display()))?;
        let pod = Netlink::open()?;
        let peer = connect(setup, &host).await?;
        configure(setup, &pod, &peer).await
    })
}

/// Makes the pair of links, the host's end in the bridge, the other in the pod; returns the name of the latter.
async fn connect(setup: &Setup, host: &Netlink) -> Result<String> {
    let failed = |error| other(&format!("connecting the pod to {}", setup.bridge), error);
    let gone = |name: &str| other("connecting the pod", format!("the link {name} has vanished"));
    let peer = format!("p{}", &setup.link[1..]);
    host.handle.link().add(LinkVeth::new(&setup.link, &peer).build()).execute().await.map_err(failed)?;
    let bridge = host.find(&setup.bridge).await?.ok_or_else(|| gone(&setup.bridge))?;
    let link = host.find(&setup.link).await?.ok_or_else(|| gone(&setup.link))?;
    let up = LinkUnspec::new_with_index(link.header.index).controller(bridge.header.index).up().build();
    host.handle.link().set(up).execute().await.map_err(failed)?;
    // With bridge-nf-call-iptables a redirected packet may go back out of the port it came from.
    let port = LinkBridgePort::new(link.header.index).hairpin(true).build();
    host.handle.link().set_port(port).execute().await.map_err(failed)?;
    let inside = fs::File::open(OWN_NAMESPACE).context(|| format!("opening {OWN_NAMESPACE}"))?;
    let peer_link = host.find(&peer).await?.ok_or_else(|| gone(&peer))?;
    let moved = LinkUnspec::new_with_index(peer_link.header.index).setns_by_fd(inside.as_raw_fd()).build();
    host.handle.link().set(moved).execute().await.map_err(failed)?;
    Ok(peer)
}

async fn configure(setup: &Setup, pod: &Netlink, peer: &str) -> Result<()> {
    let failed = |error| other("configuring the pod's network", error);
    let gone = |name: &str| other("configuring the pod's network", format!("the link {name} has vanished"));
    let index = pod.find(peer).await?.ok_or_else(|| gone(peer))?.header.index;
    // The hardware address follows from the IP address, so what others remember of an earlier pod stays right.
    let [a, b, c, d] = setup.ip.octets();
    let named = LinkUnspec::new_with_index(index).name("eth0").address(vec![0x0a, 0x58, a, b, c, d]).build();
    pod.handle.link().set(named).execute().await.map_err(failed)?;
    pod.handle.address().add(index, setup.ip.into(), 32).execute().await.map_err(failed)?;
    pod.handle.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await.map_err(failed)?;
    let lo = pod.find("lo").await?.ok_or_else(|| gone("lo"))?.header.index;
    pod.handle.link().set(LinkUnspec::new_with_index(lo).up().build()).execute().await.map_err(failed)?;
    let gateway = RouteMessageBuilder::<Ipv4Addr>::new()
        .destination_prefix(setup.gateway, 32)
        .output_interface(index)
        .scope(RouteScope::Link)
        .build();
    pod.handle.route().add(gateway).execute().await.map_err(failed)?;
    let default = RouteMessageBuilder::<Ipv4Addr>::new().gateway(setup.gateway).output_interface(index).build();
    pod.handle.route().add(default).execute().await.map_err(failed)?;
    for link in ["all", "eth0"] {
        // This thread is in the pod's namespace, so these are the pod's own settings.
        write_sysctl(&format!("net/ipv4/conf/{link}/accept_redirects"), "0")
            .context(|| "configuring the pod's network".to_owned())?;
    }
    Ok(())
}

/// Succeeds when there is none.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    loop {
        match unmount(path, UnmountFlags::DETACH) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => break,
            Err(error) => return Err(error.into()),
        }
    }
    fs::remove_file(path).or_else(absent_is_fine)
}
