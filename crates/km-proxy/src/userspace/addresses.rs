//! Service addresses on the loopback interface.

use std::{collections::BTreeSet, net::Ipv4Addr};

use anyhow::Context;
use futures::TryStreamExt;
use rtnetlink::{
    Handle,
    packet_route::address::{AddressAttribute, AddressMessage},
};
use tokio_util::task::AbortOnDropHandle;

pub struct Loopback {
    handle: Handle,
    _driver: AbortOnDropHandle<()>,
    /// Those that this process added; others are not ours to remove.
    ours: BTreeSet<Ipv4Addr>,
}

impl Loopback {
    pub fn open() -> anyhow::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection().context("opening a netlink socket")?;
        let driver = AbortOnDropHandle::new(tokio::spawn(connection));
        Ok(Self { handle, _driver: driver, ours: BTreeSet::new() })
    }

    /// Adds what is missing and removes what was added earlier and is not wanted any more.
    pub async fn set(&mut self, wanted: &BTreeSet<Ipv4Addr>) -> anyhow::Result<()> {
        let link = self.handle.link().get().match_name("lo".to_owned()).execute().try_next().await;
        let index = link.context("looking for the link lo")?.context("there is no link lo")?.header.index;
        let present = self.present(index).await?;
        let held: BTreeSet<Ipv4Addr> = present.iter().filter_map(address).collect();
        for message in present {
            let Some(gone) = address(&message).filter(|ip| self.ours.contains(ip) && !wanted.contains(ip)) else {
                continue;
            };
            let removed = self.handle.address().del(message).execute().await;
            removed.with_context(|| format!("removing the address {gone} from lo"))?;
            self.ours.remove(&gone);
        }
        for new in wanted.difference(&held) {
            let added = self.handle.address().add(index, (*new).into(), 32).execute().await;
            added.with_context(|| format!("adding the address {new} to lo"))?;
            self.ours.insert(*new);
        }
        Ok(())
    }

    async fn present(&self, index: u32) -> anyhow::Result<Vec<AddressMessage>> {
        let addresses = self.handle.address().get().set_link_index_filter(index).execute();
        addresses.try_collect().await.context("listing the addresses of lo")
    }
}

fn address(message: &AddressMessage) -> Option<Ipv4Addr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(std::net::IpAddr::V4(ip)) => Some(*ip),
        _ => None,
    })
}
