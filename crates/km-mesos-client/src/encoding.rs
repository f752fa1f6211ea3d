//! How messages are written on the wire.

use km_mesos_proto::{Message, decode_checked, json};

use crate::ClientError;

/// The two encodings of the v1 API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`: small and fast.
    #[default]
    Protobuf,
    /// `application/json` in the Mesos dialect: for reading along.
    Json,
}

impl Encoding {
    /// The value of `Content-Type` and `Accept`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    /// The encoding that a `Content-Type` names.
    pub(crate) fn of_content_type(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        [Self::Protobuf, Self::Json].into_iter().find(|encoding| encoding.content_type() == essence)
    }

    pub(crate) fn encode<M: Message>(self, message: &M) -> Vec<u8> {
        match self {
            Self::Protobuf => message.encode_to_vec(),
            Self::Json => json::to_vec(message),
        }
    }

    pub(crate) fn decode<M: Message>(self, bytes: &[u8]) -> Result<M, ClientError> {
        match self {
            Self::Protobuf => decode_checked(bytes).map_err(|error| ClientError::Decode(error.to_string())),
            Self::Json => json::from_slice(bytes).map_err(|error| ClientError::Decode(error.to_string())),
        }
    }
}
