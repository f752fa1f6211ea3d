//! Connections with the master: in order, until they break and lose what is on the way.

use std::time::Duration;

use km_mesos_core::master::ConnectionId;
use rand::Rng;

use super::World;
use crate::{
    delivery::{Delivery, Wire},
    queue::Channel,
};

/// Who is at the end that isn't the master's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Agent(usize),
    Scheduler(usize),
    Rival(usize),
}

/// A connection.
pub(crate) struct Connection {
    pub peer: Peer,
    /// From then on nothing arrives any more.
    cut: Option<Duration>,
    /// The life of the master that it reached; none as long as it is being opened.
    life: Option<u64>,
    /// The ends that know that it is over.
    master_over: bool,
    peer_over: bool,
}

impl World {
    pub fn open(&mut self, peer: Peer) -> ConnectionId {
        self.next_connection += 1;
        let new = Connection { peer, cut: None, life: None, master_over: false, peer_over: false };
        self.connections.insert(self.next_connection, new);
        ConnectionId(self.next_connection)
    }

    pub fn peer(&self, connection: ConnectionId) -> Option<Peer> {
        self.connections.get(&connection.0).map(|known| known.peer)
    }

    /// The life of the master that a connection reached.
    pub fn life_reached(&self, connection: ConnectionId) -> Option<u64> {
        self.connections.get(&connection.0)?.life
    }

    /// Whether what is on that connection still arrives. Towards the master only if that is the one that was reached.
    pub(super) fn carries(&mut self, connection: ConnectionId, wire: &Wire) -> bool {
        let (now, up, lives) = (self.now, self.master.is_some(), self.master_lives);
        let Some(known) = self.connections.get_mut(&connection.0) else { return false };
        let whole = known.cut.is_none_or(|cut| now < cut);
        match wire {
            Wire::ToFramework(_) | Wire::ToAgent(_) => whole,
            Wire::Subscribe(_) | Wire::Register(..) => {
                known.life = Some(lives);
                whole
            }
            Wire::Call(..) | Wire::ToMaster(_) => whole && up && known.life == Some(lives),
        }
    }

    pub fn send_to_master(&mut self, connection: ConnectionId, wire: Wire) {
        self.travel(Channel::ToMaster(connection.0), Delivery::OnWire(connection, wire));
    }

    pub fn send_from_master(&mut self, connection: ConnectionId, wire: Wire) {
        self.travel(Channel::FromMaster(connection.0), Delivery::OnWire(connection, wire));
    }

    pub fn travel(&mut self, channel: Channel, delivery: Delivery) {
        let arrival = self.now + self.latency();
        self.queue.send(self.now, arrival, channel, delivery);
    }

    /// The master's end is closed; the other one will see it.
    pub fn closed_by_master(&mut self, connection: ConnectionId) {
        self.travel(Channel::FromMaster(connection.0), Delivery::Closed(connection));
        self.over(connection, true);
    }

    /// The other end is closed; the master will see it.
    pub fn closed_by_peer(&mut self, connection: ConnectionId) {
        self.travel(Channel::ToMaster(connection.0), Delivery::MasterSawEnd(connection));
        self.over(connection, false);
    }

    /// The connection breaks: what is on the way is lost from some point on, and both find out, each in its own time.
    pub fn break_connection(&mut self, connection: ConnectionId) {
        let most = self.settings.latency;
        let cut = self.now + most.mul_f64(self.rng.random_range(0.0..1.0));
        if let Some(known) = self.connections.get_mut(&connection.0) {
            known.cut = Some(known.cut.map_or(cut, |old| old.min(cut)));
        }
        self.travel(Channel::ToMaster(connection.0), Delivery::MasterSawEnd(connection));
        self.travel(Channel::FromMaster(connection.0), Delivery::Closed(connection));
    }

    /// One end knows that the connection is over; it is forgotten when both do.
    pub(super) fn over(&mut self, connection: ConnectionId, master: bool) {
        let Some(known) = self.connections.get_mut(&connection.0) else { return };
        known.master_over |= master;
        known.peer_over |= !master;
        if known.master_over && known.peer_over {
            self.connections.remove(&connection.0);
        }
    }
}
