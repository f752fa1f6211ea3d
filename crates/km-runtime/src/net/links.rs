//! Bridges and links of the host, by rtnetlink.

use std::net::Ipv4Addr;

use futures::TryStreamExt;
use rtnetlink::{
    Handle, LinkBridge,
    packet_core::ErrorMessage,
    packet_route::{address::AddressAttribute, link::LinkMessage},
};

use super::{Ipv4Net, other, write_sysctl};
use crate::{Result, files::Context};

/// A connection to the kernel in the network namespace of the calling thread; it ends when dropped.
pub(super) struct Netlink {
    pub handle: Handle,
    driver: tokio::task::JoinHandle<()>,
}

impl Netlink {
    pub fn open() -> Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection().context(|| "opening a netlink socket".to_owned())?;
        Ok(Self { handle, driver: tokio::spawn(connection) })
    }

    pub async fn find(&self, name: &str) -> Result<Option<LinkMessage>> {
        match self.handle.link().get().match_name(name.to_owned()).execute().try_next().await {
            Ok(link) => Ok(link),
            Err(rtnetlink::Error::NetlinkError(error)) if is(&error, libc::ENODEV) => Ok(None),
            Err(error) => Err(other(&format!("looking for the link {name}"), error)),
        }
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub(super) fn is(error: &ErrorMessage, code: i32) -> bool {
    error.raw_code() == -code
}

/// Success, also when the thing is there already.
pub(super) fn unless_exists(
    result: std::result::Result<(), rtnetlink::Error>,
) -> std::result::Result<(), rtnetlink::Error> {
    match result {
        Err(rtnetlink::Error::NetlinkError(error)) if is(&error, libc::EEXIST) => Ok(()),
        result => result,
    }
}

/// Makes the bridge without address; an existing one is left.
pub(super) async fn ensure_bridge_link(name: &str) -> Result<()> {
    let netlink = Netlink::open()?;
    let added = netlink.handle.link().add(LinkBridge::new(name).up().build()).execute().await;
    unless_exists(added).map_err(|error| other(&format!("making the bridge {name}"), error))
}

pub(super) async fn ensure_bridge(name: &str, gateway: Ipv4Addr, prefix: u8) -> Result<()> {
    ensure_bridge_link(name).await?;
    let netlink = Netlink::open()?;
    let bridge = netlink.find(name).await?.ok_or_else(|| other("making the bridge", format!("{name} has vanished")))?;
    let added = netlink.handle.address().add(bridge.header.index, gateway.into(), prefix).execute().await;
    unless_exists(added).map_err(|error| other(&format!("giving {name} the address {gateway}"), error))?;
    for (path, value) in [
        ("net/ipv4/ip_forward".to_owned(), "1"),
        // Pods of one bridge reach each other through the host; it must not tell them of a shorter way.
        ("net/ipv4/conf/all/send_redirects".to_owned(), "0"),
        (format!("net/ipv4/conf/{name}/send_redirects"), "0"),
    ] {
        write_sysctl(&path, value).context(|| "preparing the host's network".to_owned())?;
    }
    Ok(())
}

/// Succeeds when there is no such link.
pub(super) async fn delete(name: &str) -> Result<()> {
    let netlink = Netlink::open()?;
    let Some(link) = netlink.find(name).await? else { return Ok(()) };
    match netlink.handle.link().del(link.header.index).execute().await {
        Err(rtnetlink::Error::NetlinkError(error)) if is(&error, libc::ENODEV) => Ok(()),
        result => result.map_err(|error| other(&format!("removing the link {name}"), error)),
    }
}

/// IPv4 networks that interfaces of this host are in, but for one bridge. Bridges of other agents count, also those that
/// nobody has any more.
pub(super) async fn addresses_without(bridge: &str) -> Result<Vec<Ipv4Net>> {
    let netlink = Netlink::open()?;
    let own = netlink.find(bridge).await?.map(|link| link.header.index);
    let listing = |error| other("listing the host's addresses", error);
    let mut nets = Vec::new();
    let mut addresses = netlink.handle.address().get().execute();
    while let Some(address) = addresses.try_next().await.map_err(listing)? {
        let found = address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(std::net::IpAddr::V4(found)) => Some(*found),
            _ => None,
        });
        if let Some(found) = found
            && own != Some(address.header.index)
        {
            nets.push(Ipv4Net::new(found, address.header.prefix_len));
        }
    }
    Ok(nets)
}
