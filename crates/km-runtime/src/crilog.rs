//! The log file format of the CRI: `<RFC 3339 time with nanoseconds> <stdout|stderr> <F|P> <text>`, one line each.
//! `P` marks a part of a line that is too long; the last part is `F`.

use std::{io::Write, str::FromStr};

use jiff::Timestamp;

/// Longer lines are split, as the CRI implementations do.
pub const MAX_TEXT: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Cuts one stream of a container into log lines.
pub struct Splitter {
    stream: Stream,
    pending: Vec<u8>,
}

impl Splitter {
    pub fn new(stream: Stream) -> Self {
        Self { stream, pending: Vec::new() }
    }

    /// The log lines that `data` completes. Text after the last newline is kept for the next call.
    pub fn push(&mut self, time: Timestamp, data: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        for piece in data.split_inclusive(|&byte| byte == b'\n') {
            let (text, complete) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.pending.extend_from_slice(text);
            while self.pending.len() > MAX_TEXT || (!complete && self.pending.len() == MAX_TEXT) {
                let rest = self.pending.split_off(MAX_TEXT);
                let part = std::mem::replace(&mut self.pending, rest);
                self.append(&mut lines, time, 'P', &part);
            }
            if complete {
                let text = std::mem::take(&mut self.pending);
                self.append(&mut lines, time, 'F', &text);
            }
        }
        lines
    }

    /// What the stream ended with when its last line had no newline.
    pub fn finish(&mut self, time: Timestamp) -> Vec<u8> {
        let mut lines = Vec::new();
        if !self.pending.is_empty() {
            let text = std::mem::take(&mut self.pending);
            self.append(&mut lines, time, 'F', &text);
        }
        lines
    }

    fn append(&self, lines: &mut Vec<u8>, time: Timestamp, tag: char, text: &[u8]) {
        // Writing into a vector cannot fail.
        let _infallible = write!(lines, "{time:.9} {} {tag} ", self.stream.name());
        lines.extend_from_slice(text);
        lines.push(b'\n');
    }
}

/// One line of a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub time: Timestamp,
    pub stream: Stream,
    /// The text continues in the next entry of the same stream.
    pub partial: bool,
    pub text: &'a [u8],
}

/// Reads one line without its newline; `None` when it is not in the format.
pub fn parse(line: &[u8]) -> Option<Entry<'_>> {
    let mut fields = line.splitn(4, |&byte| byte == b' ');
    let time = Timestamp::from_str(std::str::from_utf8(fields.next()?).ok()?).ok()?;
    let stream = match fields.next()? {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    // Tags are separated by colons; only the first is defined.
    let partial = fields.next()?.split(|&byte| byte == b':').next()? == b"P";
    Some(Entry { time, stream, partial, text: fields.next()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time() -> Timestamp {
        "2016-10-06T00:17:09.669794202Z".parse().unwrap()
    }

    #[test]
    fn lines_are_written_in_the_format() {
        let mut splitter = Splitter::new(Stream::Stdout);
        let lines = splitter.push(time(), b"one\n\ntw");
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "2016-10-06T00:17:09.669794202Z stdout F one\n2016-10-06T00:17:09.669794202Z stdout F \n"
        );
        assert_eq!(splitter.push(time(), b"o\n"), b"2016-10-06T00:17:09.669794202Z stdout F two\n");
        assert!(splitter.finish(time()).is_empty());
    }

    #[test]
    fn times_always_have_nine_digits() {
        let lines = Splitter::new(Stream::Stderr).push("2024-01-01T00:00:00Z".parse().unwrap(), b"x\n");
        assert_eq!(lines, b"2024-01-01T00:00:00.000000000Z stderr F x\n");
    }

    #[test]
    fn what_is_not_in_the_format_is_not_read() {
        for line in ["", "x", "2024-01-01T00:00:00Z stdin F x", "2024-01-01T00:00:00Z stdout F", "no stdout F x"] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn the_text_comes_back_whatever_the_chunks(
            runs in proptest::collection::vec((prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0usize..20_000), 0..8)
        ) {
            // Many newlines make many lines, which say no more than a few.
            let chunks: Vec<Vec<u8>> = runs
                .into_iter()
                .map(|(byte, count)| vec![byte; if byte == b'\n' { count % 5 } else { count }])
                .collect();
            let mut splitter = Splitter::new(Stream::Stdout);
            let mut file = Vec::new();
            for chunk in &chunks {
                file.extend(splitter.push(time(), chunk));
            }
            file.extend(splitter.finish(time()));
            let mut text = Vec::new();
            for line in file.split_inclusive(|&byte| byte == b'\n') {
                let entry = parse(&line[..line.len() - 1]).unwrap();
                prop_assert!(entry.text.len() <= MAX_TEXT);
                text.extend_from_slice(entry.text);
                if !entry.partial {
                    text.push(b'\n');
                }
            }
            let mut original = chunks.concat();
            if text.len() == original.len() + 1 {
                original.push(b'\n');
            }
            prop_assert_eq!(text, original);
        }
    }
}
