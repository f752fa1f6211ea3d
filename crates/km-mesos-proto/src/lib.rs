//! Mesos v1 messages, the Mesos JSON dialect, RecordIO framing and the resource algebra. No IO.

pub mod constraints;
mod ids;
pub mod json;
pub mod recordio;
pub mod required;
pub mod resources;
mod schema;
mod wire;

pub use required::{DecodeError, decode_checked};

/// The messages of the Mesos v1 API, generated from `proto/`.
#[allow(clippy::all, clippy::unwrap_used)]
mod protos {
    include!(concat!(env!("OUT_DIR"), "/protos.rs"));
}
pub use protos::mesos::v1;

/// Any message of [`v1`]: it encodes itself and has a name under which its description is found.
pub trait Message: prost::Message + prost::Name + Default {}

impl<M: prost::Message + prost::Name + Default> Message for M {}
