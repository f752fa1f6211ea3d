//! Copies a container's output into its log file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use jiff::Timestamp;

use crate::crilog::{Splitter, Stream};

/// Lines of both streams end up whole, in the order in which they came.
#[derive(Clone)]
pub struct LogFile(Arc<Mutex<File>>);

impl LogFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Copies until the last process of the container has closed the stream.
    pub fn copy(&self, stream: Stream, input: OwnedFd) -> JoinHandle<io::Result<()>> {
        let log = self.clone();
        std::thread::spawn(move || log.copy_all(stream, File::from(input)))
    }

    fn copy_all(&self, stream: Stream, mut input: File) -> io::Result<()> {
        let mut splitter = Splitter::new(stream);
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let length = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // A full disk must not stop the container, which would block once the pipe is full: the lines are lost.
            let _lost_when_the_disk_is_full = self.append(&splitter.push(Timestamp::now(), &buffer[..length]));
        }
        self.append(&splitter.finish(Timestamp::now()))
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(lines)
    }
}
