//! Mesos v1 messages, the Mesos JSON dialect, RecordIO framing and the resource algebra. No IO.

/// The messages of the Mesos v1 API, generated from `proto/`.
#[allow(clippy::all, clippy::unwrap_used)]
mod protos {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
pub use protos::mesos::v1;
