//! What of a log is wanted, and how it is printed. Pure.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};
use km_runtime::crilog::{self, Stream};

/// The query of a log request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<usize>,
    pub since: Option<Timestamp>,
    pub limit_bytes: Option<usize>,
    /// Only this stream.
    pub stream: Option<Stream>,
}

impl Options {
    /// Reads a query; unknown keys are ignored, as the API server sends its own along.
    pub fn parse(query: &[(String, String)]) -> Result<Self, String> {
        let mut options = Self::default();
        for (key, value) in query {
            let wrong = |what: &str| format!("{key}={value:?}: {what}");
            let number = || value.parse::<u64>().map_err(|_| wrong("must be a number, 0 or more"));
            let size = || number().and_then(|number| usize::try_from(number).map_err(|_| wrong("too large")));
            let flag = || match value.as_str() {
                "" | "1" | "true" | "True" | "TRUE" | "t" | "T" => Ok(true),
                "0" | "false" | "False" | "FALSE" | "f" | "F" => Ok(false),
                _ => Err(wrong("must be true or false")),
            };
            match key.as_str() {
                "follow" => options.follow = flag()?,
                "previous" => options.previous = flag()?,
                "timestamps" => options.timestamps = flag()?,
                "tailLines" => options.tail_lines = Some(size()?),
                "limitBytes" => options.limit_bytes = Some(size()?),
                "sinceSeconds" => {
                    let seconds = i64::try_from(number()?).map_err(|_| wrong("too large"))?;
                    let since = Timestamp::now().checked_sub(SignedDuration::from_secs(seconds));
                    options.since = Some(since.unwrap_or(Timestamp::MIN));
                }
                "sinceTime" => options.since = Some(value.parse().map_err(|_| wrong("must be an RFC 3339 time"))?),
                "stream" => {
                    options.stream = match value.as_str() {
                        "All" | "" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        _ => return Err(wrong("must be All, Stdout or Stderr")),
                    };
                }
                _ => {}
            }
        }
        Ok(options)
    }

    fn wants(&self, entry: &crilog::Entry<'_>) -> bool {
        self.since.is_none_or(|since| entry.time >= since) && self.stream.is_none_or(|stream| entry.stream == stream)
    }
}

/// Prints entries as they are read.
pub struct Printer {
    options: Options,
    left: Option<usize>,
    /// The entry before was partial: this one goes on in the same line.
    continues: bool,
}

impl Printer {
    pub fn new(options: Options) -> Self {
        Self { left: options.limit_bytes, options, continues: false }
    }

    /// The byte limit is reached.
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// The text of one line of the log file (without its newline). A line not in the format is passed as it is.
    pub fn print(&mut self, line: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        match crilog::parse(line) {
            Some(entry) if !self.options.wants(&entry) => return text,
            Some(entry) => {
                if self.options.timestamps && !self.continues {
                    text.extend_from_slice(format!("{:.9} ", entry.time).as_bytes());
                }
                text.extend_from_slice(entry.text);
                if !entry.partial {
                    text.push(b'\n');
                }
                self.continues = entry.partial;
            }
            None => {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
        }
        if let Some(left) = &mut self.left {
            text.truncate(*left);
            *left -= text.len();
        }
        text
    }
}

/// Finds where the last lines of a log start, reading it once.
pub struct Tail {
    starts: VecDeque<u64>,
    lines: usize,
    offset: u64,
    in_line: bool,
}

impl Tail {
    pub fn new(lines: usize) -> Self {
        Self { starts: VecDeque::new(), lines, offset: 0, in_line: false }
    }

    /// Takes the next line with its newline.
    pub fn push(&mut self, line: &[u8]) {
        if !self.in_line {
            self.starts.push_back(self.offset);
            if self.starts.len() > self.lines {
                self.starts.pop_front();
            }
        }
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        self.in_line = crilog::parse(bare).is_some_and(|entry| entry.partial);
        self.offset += line.len() as u64;
    }

    /// Where to start reading.
    pub fn start(&self) -> u64 {
        self.starts.front().copied().unwrap_or(self.offset)
    }
}
