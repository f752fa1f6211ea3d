//! The file behind a store, and how its failures are told apart.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{Event, EventKind, Facets, Key, StoreError, Stored};

/// (resource, namespace, name) to (revision, document).
const OBJECTS: TableDefinition<'_, (&str, &str, &str), (u64, &[u8])> = TableDefinition::new("objects");
/// Named numbers: `revision` and `format`.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const REVISION: &str = "revision";
const FORMAT: &str = "format";
/// The layout of the tables above. A file of a later one is refused rather than misread.
const THIS_FORMAT: u64 = 1;
/// Reads come from memory, so redb's page cache only serves the inner pages of its trees.
const CACHE_BYTES: usize = 8 << 20;

/// Where the database's bytes are. Production has [`FileDisk`]; tests put failing media behind the same store.
pub trait Disk: Send + 'static {
    /// Opens or creates the database. Called again after a failure.
    fn open(&self, builder: redb::Builder) -> Result<Database, DatabaseError>;
    /// Its name in messages.
    fn path(&self) -> &Path;
}

/// A file.
#[derive(Clone, Debug)]
pub struct FileDisk(pub PathBuf);

impl Disk for FileDisk {
    fn open(&self, builder: redb::Builder) -> Result<Database, DatabaseError> {
        builder.create(&self.0)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// Everything that the file holds.
#[derive(Debug, Default)]
pub struct Contents {
    pub revision: u64,
    pub objects: Vec<Stored>,
}

/// The open database, or nothing after a failure until it is opened again.
pub(crate) struct Journal {
    disk: Box<dyn Disk>,
    database: Option<Database>,
}

impl Journal {
    pub(crate) fn new(disk: Box<dyn Disk>) -> Self {
        Self { disk, database: None }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.database.is_some()
    }

    pub(crate) fn path(&self) -> &Path {
        self.disk.path()
    }

    /// Opens the file, checks every page of it and reads it whole.
    pub(crate) fn open(&mut self, facets: fn(&Key, &serde_json::Value) -> Facets) -> Result<Contents, StoreError> {
        // The old handle holds the file's lock.
        self.database = None;
        let disk = &self.disk;
        // redb reports most damage as an error, but asserts some of it, in debug builds above all.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut builder = Database::builder();
            builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
            let database = disk.open(builder).map_err(redb::Error::from)?;
            prepare(&database)?;
            let contents = read_all(&database, facets)?;
            Ok::<_, Failure>((database, contents))
        }));
        match opened {
            Ok(Ok((database, contents))) => {
                self.database = Some(database);
                Ok(contents)
            }
            Ok(Err(failure)) => Err(self.explain(failure)),
            Err(_) => Err(self.damaged("its pages contradict each other".to_owned())),
        }
    }

    /// Writes a batch durably. After an error the outcome is unknown until the file was opened again.
    pub(crate) fn commit(&mut self, events: &[Arc<Event>], revision: u64) -> Result<(), StoreError> {
        let Some(database) = &self.database else { return Err(StoreError::Closed) };
        let committed = catch_unwind(AssertUnwindSafe(|| commit(database, events, revision)));
        match committed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                self.database = None;
                Err(self.explain(failure))
            }
            Err(_) => {
                self.database = None;
                Err(self.damaged("its pages contradict each other".to_owned()))
            }
        }
    }

    fn damaged(&self, reason: String) -> StoreError {
        StoreError::Damaged { file: self.path().to_owned(), reason }
    }

    fn explain(&self, failure: Failure) -> StoreError {
        let file = self.path().to_owned();
        let error = match failure {
            Failure::Content(reason) => return self.damaged(reason),
            Failure::Redb(error) => error,
        };
        let reason = error.to_string();
        match error {
            redb::Error::Io(io) => match io.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    StoreError::Full { file, reason }
                }
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
                    StoreError::Damaged { file, reason }
                }
                _ => StoreError::Io { file, reason },
            },
            redb::Error::Corrupted(reason) => StoreError::Damaged { file, reason },
            redb::Error::UpgradeRequired(version) => {
                StoreError::Damaged { file, reason: format!("it has the unknown layout {version}") }
            }
            _ => StoreError::Io { file, reason },
        }
    }
}

enum Failure {
    Redb(redb::Error),
    Content(String),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

fn prepare(database: &Database) -> Result<(), Failure> {
    let known = {
        let read = database.begin_read()?;
        match read.open_table(NUMBERS) {
            Ok(numbers) => numbers.get(FORMAT)?.map(|number| number.value()),
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        }
    };
    match known {
        Some(THIS_FORMAT) => Ok(()),
        Some(other) => Err(Failure::Content(format!("its format is {other}, this build knows {THIS_FORMAT}"))),
        None => {
            let write = database.begin_write()?;
            write.open_table(OBJECTS)?;
            write.open_table(NUMBERS)?.insert(FORMAT, THIS_FORMAT)?;
            // Revision 0 has a meaning of its own in requests, so an empty store is at 1.
            write.open_table(NUMBERS)?.insert(REVISION, 1)?;
            Ok(write.commit()?)
        }
    }
}

fn read_all(database: &Database, facets: fn(&Key, &serde_json::Value) -> Facets) -> Result<Contents, Failure> {
    let read = database.begin_read()?;
    let revision = read.open_table(NUMBERS)?.get(REVISION)?.map(|number| number.value());
    let revision = revision.ok_or_else(|| Failure::Content("it names no revision".to_owned()))?;
    let mut objects = Vec::new();
    for entry in read.open_table(OBJECTS)?.iter()? {
        let (place, value) = entry?;
        let (resource, namespace, name) = place.value();
        let (object_revision, json) = value.value();
        let key = Key::new(resource, namespace, name);
        let document: serde_json::Value = serde_json::from_slice(json)
            .map_err(|error| Failure::Content(format!("{resource} {namespace}/{name} is no JSON: {error}")))?;
        let facets = facets(&key, &document);
        objects.push(Stored { key, revision: object_revision, json: Bytes::copy_from_slice(json), facets });
    }
    Ok(Contents { revision, objects })
}

fn commit(database: &Database, events: &[Arc<Event>], revision: u64) -> Result<(), Failure> {
    let write = database.begin_write()?;
    {
        let mut objects = write.open_table(OBJECTS)?;
        for event in events {
            let Key { resource, namespace, name } = &event.object.key;
            let place = (resource.as_str(), namespace.as_str(), name.as_str());
            match event.kind {
                EventKind::Deleted => {
                    objects.remove(place)?;
                }
                EventKind::Added | EventKind::Modified => {
                    objects.insert(place, (event.object.revision, event.object.json.as_ref()))?;
                }
            }
        }
        write.open_table(NUMBERS)?.insert(REVISION, revision)?;
    }
    write.commit()?;
    Ok(())
}
