//! A list whose places are used again.

use std::ops::{Index, IndexMut};

/// Values by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(value);
                at
            }
            None => {
                self.entries.push(Some(value));
                // More than four thousand million entries don't fit into memory.
                (self.entries.len() - 1) as u32
            }
        }
    }

    pub fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub fn get(&self, at: u32) -> Option<&T> {
        self.entries.get(at as usize)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| Some((at as u32, entry.as_ref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(at, entry)| Some((at as u32, entry.as_mut()?)))
    }

    /// One more than the highest number in use, about.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }
}

/// Numbers come from [`Slab::insert`] and are used until [`Slab::remove`]; anything else is a fault of this crate.
impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        self.entries[at as usize].as_ref().expect("the number is in use")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        self.entries[at as usize].as_mut().expect("the number is in use")
    }
}
