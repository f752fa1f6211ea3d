//! Reading and writing the protobuf wire format one field at a time, for code that works from descriptions.

use prost::encoding::{WireType, decode_varint, encode_varint};

/// One field's value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The bytes aren't protobuf, or not of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed protobuf")]
pub(crate) struct Malformed;

/// Takes fields off the front of an encoded message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field's number and value; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        let value = match WireType::try_from(key & 7).map_err(|_| Malformed)? {
            WireType::Varint => WireValue::Varint(self.varint()?),
            WireType::SixtyFourBit => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            WireType::ThirtyTwoBit => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            WireType::LengthDelimited => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                WireValue::Bytes(self.take(length)?)
            }
            // Groups occur in no Mesos message.
            WireType::StartGroup | WireType::EndGroup => return Err(Malformed),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        decode_varint(&mut self.0).map_err(|_| Malformed)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }
}

/// Appends a field.
pub(crate) fn write(number: u32, value: WireValue<'_>, out: &mut Vec<u8>) {
    let wire_type = match value {
        WireValue::Varint(_) => WireType::Varint,
        WireValue::Fixed64(_) => WireType::SixtyFourBit,
        WireValue::Fixed32(_) => WireType::ThirtyTwoBit,
        WireValue::Bytes(_) => WireType::LengthDelimited,
    };
    encode_varint(u64::from(number) << 3 | wire_type as u64, out);
    match value {
        WireValue::Varint(value) => encode_varint(value, out),
        WireValue::Fixed64(value) => out.extend_from_slice(&value.to_le_bytes()),
        WireValue::Fixed32(value) => out.extend_from_slice(&value.to_le_bytes()),
        WireValue::Bytes(value) => {
            encode_varint(value.len() as u64, out);
            out.extend_from_slice(value);
        }
    }
}
