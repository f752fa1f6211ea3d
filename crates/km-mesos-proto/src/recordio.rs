//! RecordIO, the framing of Mesos event streams: `<decimal byte length>\n<bytes>`, repeated.
//!
//! Chunks of the HTTP body carry no meaning: a record may be spread over many, and one may hold many records.

use bytes::{Buf, Bytes, BytesMut};

/// A `u64` in decimal has at most this many digits.
const MAX_LENGTH_DIGITS: usize = 20;

/// Puts one record's frame around its bytes. Records are never empty in Mesos, so `record` shouldn't be.
pub fn encode(record: &[u8]) -> Bytes {
    let mut frame = record.len().to_string().into_bytes();
    frame.reserve_exact(1 + record.len());
    frame.push(b'\n');
    frame.extend_from_slice(record);
    frame.into()
}

/// Why a stream can't be read on. The stream has lost its frame then and must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something else stands where a length should.
    #[error("record length must be decimal digits followed by a newline, got {0:?}")]
    BadLength(String),
    /// The length is more than the reader is willing to hold.
    #[error("record of {length} bytes is longer than the {max} allowed")]
    TooLong {
        /// The announced length, in bytes.
        length: u64,
        /// The longest allowed, in bytes.
        max: usize,
    },
}

/// Cuts a stream of chunks into records.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    max_len: usize,
    /// Length of the record whose header has been read already.
    pending: Option<usize>,
}

impl Decoder {
    /// A decoder that refuses records of more than `max_len` bytes.
    pub fn new(max_len: usize) -> Self {
        Self { buffer: BytesMut::new(), max_len, pending: None }
    }

    /// Appends a chunk of the stream.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole record, or `None` until more is pushed. After an error every further call fails as well.
    #[expect(clippy::should_implement_trait, reason = "None means 'not yet', so this is no iterator")]
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let length = match self.pending {
            Some(length) => length,
            None => match self.read_length()? {
                Some(length) => *self.pending.insert(length),
                None => return Ok(None),
            },
        };
        if self.buffer.len() < length {
            return Ok(None);
        }
        self.pending = None;
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// True when the stream may end here: no record has been begun.
    pub fn is_at_boundary(&self) -> bool {
        self.pending.is_none() && self.buffer.iter().all(|&byte| byte == b'\n')
    }

    fn read_length(&mut self) -> Result<Option<usize>, Error> {
        // Blank lines between records are harmless, and some servers send them.
        let blank = self.buffer.iter().take_while(|&&byte| byte == b'\n').count();
        self.buffer.advance(blank);
        let digits = self.buffer.iter().take_while(|byte| byte.is_ascii_digit()).take(MAX_LENGTH_DIGITS + 1).count();
        let bad = || Err(Error::BadLength(String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(32)]).into()));
        match self.buffer.get(digits) {
            _ if digits > MAX_LENGTH_DIGITS => bad(),
            None => Ok(None),
            Some(b'\n') => {
                let text = String::from_utf8_lossy(&self.buffer[..digits]);
                let Ok(length) = text.parse::<u64>() else { return bad() };
                let fits = usize::try_from(length).ok().filter(|&length| length <= self.max_len);
                let fitting = fits.ok_or(Error::TooLong { length, max: self.max_len })?;
                self.buffer.advance(digits + 1);
                Ok(Some(fitting))
            }
            Some(_) => bad(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode_all(decoder: &mut Decoder) -> Result<Vec<Bytes>, Error> {
        std::iter::from_fn(|| decoder.next().transpose()).collect()
    }

    #[test]
    fn frames_carry_the_byte_length() {
        assert_eq!(&encode("é".as_bytes())[..], "2\né".as_bytes());
    }

    #[test]
    fn broken_frames_are_refused() {
        let cases: [(&[u8], &str); 5] = [
            (b"abc\n", "must be decimal"),
            (b"-1\nx", "must be decimal"),
            (b"12 \nx", "must be decimal"),
            (b"99999999999999999999\nx", "must be decimal"),
            (b"11\nx", "longer than the 10 allowed"),
        ];
        for (stream, reason) in cases {
            let mut decoder = Decoder::new(10);
            decoder.push(stream);
            let error = decoder.next().unwrap_err();
            assert!(error.to_string().contains(reason), "{stream:?}: {error}");
            assert_eq!(decoder.next().unwrap_err(), error, "the error stays");
        }
    }

    #[test]
    fn blank_lines_before_a_length_are_skipped() {
        let mut decoder = Decoder::new(10);
        decoder.push(b"\n\n1\na\n1\nb\n");
        assert_eq!(decode_all(&mut decoder).unwrap(), ["a", "b"]);
        assert!(decoder.is_at_boundary());
        decoder.push(b"3\nab");
        assert_eq!(decoder.next(), Ok(None));
        assert!(!decoder.is_at_boundary());
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_records(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..10),
            sizes in prop::collection::vec(1usize..50, 1..20),
        ) {
            let stream: Vec<u8> = records.iter().flat_map(|record| encode(record)).collect();
            let mut decoder = Decoder::new(200);
            let mut decoded = Vec::new();
            let mut rest = &stream[..];
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, tail) = rest.split_at((*size).min(rest.len()));
                decoder.push(chunk);
                decoded.extend(decode_all(&mut decoder)?);
                rest = tail;
            }
            prop_assert_eq!(decoded, records);
            prop_assert!(decoder.is_at_boundary());
        }
    }
}
