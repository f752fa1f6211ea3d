//! A log of changes with many readers, each of whom remembers how far it has read.

/// Entries in order. Old ones are dropped when there are too many; a reader that is too far behind starts anew.
#[derive(Debug)]
pub(crate) struct Log<T> {
    entries: Vec<T>,
    /// Number of the first entry that is still there.
    base: usize,
}

/// So many entries are kept for slow readers; twice as many are stored at most.
const KEPT: usize = 1 << 14;

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), base: 0 }
    }
}

impl<T> Log<T> {
    pub fn push(&mut self, entry: T) {
        if self.entries.len() >= 2 * KEPT {
            self.entries.drain(..KEPT);
            self.base += KEPT;
        }
        self.entries.push(entry);
    }

    /// The number of the next entry.
    pub fn end(&self) -> usize {
        self.base + self.entries.len()
    }

    /// The entries from that number on; none when some of them are gone.
    pub fn since(&self, seen: usize) -> Option<&[T]> {
        self.entries.get(seen.checked_sub(self.base)?..)
    }
}
