//! A log file that is rotated by size: `NAME`, then `NAME.1` (newest) to `NAME.n`. Old ones are removed by age.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    time::{Duration, SystemTime},
};

#[derive(Clone, Debug)]
pub struct LogFile {
    pub path: PathBuf,
    /// In bytes.
    pub max_size: u64,
    pub max_backups: u32,
    pub max_age: Duration,
}

/// An open log.
pub struct Writer {
    log: LogFile,
    file: Option<File>,
    size: u64,
}

impl Writer {
    pub fn new(log: LogFile) -> Self {
        Self { log, file: None, size: 0 }
    }

    /// Appends bytes, after a rotation when they don't fit any more.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.open()?;
        }
        if self.size > 0 && self.size + bytes.len() as u64 > self.log.max_size {
            self.file = None;
            self.rotate()?;
            self.open()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
            self.size += bytes.len() as u64;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let file = File::options().create(true).append(true).open(&self.log.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&self) -> io::Result<()> {
        if self.log.max_backups == 0 {
            return fs::remove_file(&self.log.path);
        }
        remove(&self.backup(self.log.max_backups))?;
        for number in (1..self.log.max_backups).rev() {
            match fs::rename(self.backup(number), self.backup(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.log.path, self.backup(1))?;
        for number in 2..=self.log.max_backups {
            let backup = self.backup(number);
            let Ok(modified) = fs::metadata(&backup).and_then(|metadata| metadata.modified()) else { continue };
            if SystemTime::now().duration_since(modified).unwrap_or_default() > self.log.max_age {
                remove(&backup)?;
            }
        }
        Ok(())
    }

    fn backup(&self, number: u32) -> PathBuf {
        self.log.path.with_added_extension(number.to_string())
    }
}

fn remove(path: &PathBuf) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn log(directory: &tempfile::TempDir, max_backups: u32) -> LogFile {
        LogFile { path: directory.path().join("x.log"), max_size: 10, max_backups, max_age: 7 * DAY }
    }

    fn read(log: &LogFile, backup: &str) -> Option<String> {
        fs::read_to_string(format!("{}{backup}", log.path.display())).ok()
    }

    #[test]
    fn a_full_file_moves_on_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(&directory, 2);
        let mut writer = Writer::new(log.clone());
        for text in ["aaaaaa", "aaaa", "bbbbbbbb", "cccccccc", "dddddddd"] {
            writer.write(text.as_bytes()).unwrap();
        }
        assert_eq!(read(&log, "").unwrap(), "dddddddd");
        assert_eq!(read(&log, ".1").unwrap(), "cccccccc");
        assert_eq!(read(&log, ".2").unwrap(), "bbbbbbbb");
        assert_eq!(read(&log, ".3"), None);
    }

    #[test]
    fn a_file_of_an_earlier_process_is_gone_on_with() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(&directory, 1);
        Writer::new(log.clone()).write(b"12345").unwrap();
        Writer::new(log.clone()).write(b"678").unwrap();
        assert_eq!(read(&log, "").unwrap(), "12345678");
        Writer::new(log.clone()).write(b"9ab").unwrap();
        assert_eq!((read(&log, "").unwrap(), read(&log, ".1").unwrap()), ("9ab".to_owned(), "12345678".to_owned()));
    }

    #[test]
    fn old_backups_go() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(&directory, 3);
        let mut writer = Writer::new(log.clone());
        writer.write(b"11111111").unwrap();
        writer.write(b"22222222").unwrap();
        let old = File::options().write(true).open(format!("{}.1", log.path.display())).unwrap();
        old.set_modified(SystemTime::now() - 8 * DAY).unwrap();
        writer.write(b"33333333").unwrap();
        assert_eq!(read(&log, ".1").unwrap(), "22222222");
        assert_eq!(read(&log, ".2"), None);
    }
}
