//! A request about a kind, with everything that the verbs need.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use km_store::Key;

use crate::{failure::Failure, negotiate::Form, query::Query, registry::Kind, server::Server};

/// A resource request after its path, query and headers were read.
pub struct Context {
    pub server: Arc<Server>,
    pub kind: &'static Kind,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub form: Form,
    /// Empty for requests without one.
    pub body: Bytes,
}

impl Context {
    /// The name in the path; the router only calls verbs that need one with one.
    pub fn name(&self) -> Result<&str, Failure> {
        self.name.as_deref().ok_or_else(Failure::method_not_allowed)
    }

    /// Where the object of the path is stored.
    pub fn key(&self) -> Result<Key, Failure> {
        Ok(self.kind.key(self.namespace.as_deref(), self.name()?))
    }
}
