//! What happens to offers and what follows from it.

use km_mesos_proto::v1;

/// Input of the pool. Events may be repeated or name unknown offers: that changes nothing.
#[derive(Clone, Debug)]
pub enum Event {
    /// Offers that Mesos made. An id seen before is ignored: Mesos never reuses one.
    Received(Vec<v1::Offer>),
    /// Mesos took an offer back.
    Rescinded(v1::OfferId),
    /// Placement takes these offers for itself: they neither expire nor are acquired again until released.
    Acquired(Vec<v1::OfferId>),
    /// Placement gives them back.
    Released(Vec<v1::OfferId>),
    /// An ACCEPT was sent with these offers.
    Accepted(Vec<v1::OfferId>),
    /// The owner doesn't want these offers.
    Refused(Vec<v1::OfferId>, DeclineReason),
    /// The agent is gone and its offers with it.
    AgentLost(v1::AgentId),
    /// The subscription ended: all offers are void.
    Disconnected,
    /// Time passed.
    Tick,
}

/// Why an offer is declined; the label `reason` of the metric `mesos_offers_declined`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeclineReason {
    /// Kept for its time to live and not used.
    Expired,
    /// Nothing waits for offers.
    Idle,
    /// It can never be used by this scheduler (for example another executor runs on the agent).
    Incompatible,
    /// Of a role or an agent that the framework wants no offers of.
    Unwanted,
}

impl DeclineReason {
    /// The value in metrics and logs, as the original named it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::Incompatible => "compat",
            Self::Unwanted => "unwanted",
        }
    }
}

/// How an offer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Accepted,
    Declined(DeclineReason),
    Rescinded,
    /// Void because the agent or the connection is gone.
    Lost,
}

/// Output of the pool.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send one DECLINE for these offers.
    Decline { offers: Vec<v1::OfferId>, reason: DeclineReason },
    /// An offer that the listener waits for is here. The listener is gone now.
    Wake(String),
    /// Told once for each offer.
    Ended { offer: v1::OfferId, hostname: String, end: End },
}
