//! The wire format of protobuf: numbered fields, one after the other.

use super::ProtobufError;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Number(u64),
    /// Eight bytes, little endian; four are widened.
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of one message. Ends after the first error.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u32, Content<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok()?;
        let content = match tag & 7 {
            0 => Content::Number(self.varint()?),
            1 => Content::Fixed(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Fixed(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((number, content))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Content<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(ProtobufError::Malformed))
    }
}
