//! The last step of every change: the store, or for dry runs only the pretence of it.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use km_store::{Change, Expect, Key, StoreError, Stored, Write};
use serde_json::Value;

use crate::{failure::Failure, registry::Kind, registry::facets, server::Server};

/// Stores a document.
pub async fn put(
    server: &Server,
    key: Key,
    expect: Expect,
    document: Value,
    dry_run: bool,
) -> Result<Arc<Stored>, StoreError> {
    if dry_run {
        return pretend(server, key, expect, &document);
    }
    run(server, Write { key, expect, change: Change::Put(document) }).await
}

/// Removes a document; returns its last state.
pub async fn remove(server: &Server, stored: &Stored, dry_run: bool) -> Result<Arc<Stored>, StoreError> {
    if dry_run {
        return Ok(Arc::new(stored.clone()));
    }
    let expect = Expect::Revision(stored.revision);
    run(server, Write { key: stored.key.clone(), expect, change: Change::Delete }).await
}

async fn run(server: &Server, write: Write) -> Result<Arc<Stored>, StoreError> {
    let result = server.store.write(write).await;
    let trouble = match &result {
        Err(error @ (StoreError::Full { .. } | StoreError::Io { .. } | StoreError::Damaged { .. })) => {
            Some(error.to_string())
        }
        Ok(_) => None,
        Err(_) => return result,
    };
    *server.write_trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    result
}

fn pretend(server: &Server, key: Key, expect: Expect, document: &Value) -> Result<Arc<Stored>, StoreError> {
    let current = server.store.get(&key);
    match (expect, &current) {
        (Expect::Absent, Some(_)) => return Err(StoreError::AlreadyExists),
        (Expect::Revision(_), None) => return Err(StoreError::NotFound),
        (Expect::Revision(expected), Some(stored)) if stored.revision != expected => {
            return Err(StoreError::Conflict { expected, current: stored.revision });
        }
        _ => {}
    }
    let revision = current.map(|stored| stored.revision).unwrap_or_default();
    let facets = facets(&key, document);
    Ok(Arc::new(Stored { key, revision, json: Bytes::from(document.to_string()), facets }))
}

/// Whether new objects may be made in a namespace: it must be there and not on its way out.
pub fn admit_namespace(server: &Server, kind: &Kind, namespace: &str, name: &str) -> Result<(), Failure> {
    let Some(namespaces) = crate::registry::by_storage("namespaces") else { return Ok(()) };
    let stored = server.store.get(&namespaces.key(None, namespace));
    let stored = stored.ok_or_else(|| Failure::not_found(namespaces, namespace))?;
    // Each creation comes here: a document without the word needn't be parsed.
    let word = b"\"deletionTimestamp\"";
    let said = stored.json.windows(word.len()).any(|part| part == word);
    if said && stored.value().pointer("/metadata/deletionTimestamp").is_some() {
        return Err(Failure::namespace_terminating(kind, name, namespace));
    }
    Ok(())
}
