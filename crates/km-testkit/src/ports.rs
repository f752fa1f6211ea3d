//! Ports for the servers that tests start.

use std::{
    hash::{BuildHasher, RandomState},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    sync::Mutex,
};

/// Below the ports that the system picks by itself for connections (from 32768), which could take one before its server
/// starts, and below those of NodePorts and of tasks on Mesos agents (from 30000).
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// What marks the ports that this process was given, for as long as it lives.
static TAKEN: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// The first of so many neighbouring ports that nobody listens on. No other test on this machine is given one of them, and
/// this process is given none of them again.
pub fn free_ports(count: u16) -> u16 {
    let tries = (0..1000).map(|_| FIRST + random() % (COUNT - count));
    let found = tries.filter_map(|first| Some((first, (first..first + count).map(take).collect::<Option<Vec<_>>>()?)));
    let Some((first, marks)) = found.into_iter().next() else { panic!("no {count} neighbouring ports are free") };
    TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(marks);
    first
}

/// See [`free_ports`].
pub fn free_port() -> u16 {
    free_ports(1)
}

/// Marks a port by a name that only one process at a time can have, and that is free again when the process has ended.
fn take(port: u16) -> Option<UnixDatagram> {
    let name = SocketAddr::from_abstract_name(format!("km-test-port-{port}")).ok()?;
    let mark = UnixDatagram::bind_addr(&name).ok()?;
    let is_free = TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok();
    is_free.then_some(mark)
}

fn random() -> u16 {
    // Each state has keys of its own.
    (RandomState::new().hash_one(()) % u64::from(u16::MAX)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_ports_are_free_and_given_once() {
        let (first, other) = (free_ports(3), free_ports(2));
        let given: Vec<u16> = (first..first + 3).chain(other..other + 2).collect();
        let open: Vec<_> = given.iter().map(|port| TcpListener::bind(("127.0.0.1", *port))).collect();
        assert!(open.iter().all(Result::is_ok), "{given:?}: {open:?}");
        assert!(given.iter().all(|port| take(*port).is_none()), "they are marked");
    }
}
