//! The server's state, and the way of a request through it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use axum::body::Body;
use http::{Method, Request, Response};
use km_store::{Query as StoreQuery, Store, Stored};
use tokio_util::sync::CancellationToken;

use crate::{
    allocate::{Addresses, Ports},
    body,
    client_auth::Identity,
    context::Context,
    discovery,
    failure::Failure,
    kubelet_client::KubeletClient,
    metrics::Metrics,
    negotiate::Form,
    openapi,
    path::ResourcePath,
    plain,
    query::Query,
    registry, subresources, verbs,
};

/// Everything that requests share.
pub struct Server {
    pub store: Arc<dyn Store>,
    /// The range of cluster IPs, with nothing taken.
    pub service_addresses: Addresses,
    /// The range of node ports, with nothing taken.
    pub node_ports: Ports,
    /// Held over each write of a kind whose hooks allocate.
    pub allocation: tokio::sync::Mutex<()>,
    pub kubelets: KubeletClient,
    pub metrics: Metrics,
    pub openapi: openapi::Documents,
    /// Ends watches and followed logs, so that the process can stop.
    pub stop: CancellationToken,
    /// Why the last write failed, until one works again; shown by `/readyz`.
    pub write_trouble: Mutex<Option<String>>,
}

impl Server {
    /// All objects of a resource.
    pub fn all(&self, resource: &str) -> Result<Vec<Arc<Stored>>, Failure> {
        let query =
            StoreQuery { resource, namespace: None, at: None, after: None, limit: 0, matches: &|_: &Stored| true };
        self.store.list(&query).map(|page| page.items).map_err(Failure::internal)
    }

    /// Whether writes work, as far as known.
    pub fn writable(&self) -> Result<(), String> {
        let trouble = self.write_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone().map_or(Ok(()), Err)
    }

    /// Answers one request.
    pub async fn handle(self: Arc<Self>, identity: Option<Identity>, request: Request<Body>) -> Response<Body> {
        let started = Instant::now();
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let label = Label::of(&method, &path, request.uri().query());
        let response = match self.clone().route(identity, request).await {
            Ok(response) => response,
            Err(failure) => failure.response(),
        };
        let code = response.status().as_u16();
        self.metrics.observe(&label.verb, &label.resource, code, started.elapsed());
        tracing::debug!(%method, path, code, ms = started.elapsed().as_millis() as u64, "request");
        response
    }

    async fn route(
        self: Arc<Self>,
        identity: Option<Identity>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Failure> {
        let (parts, stream) = request.into_parts();
        let path = parts.uri.path();
        if identity.is_none() && !plain::is_public(path) {
            return Err(Failure::unauthorized());
        }
        let query = Query::parse(parts.uri.query());
        if let Some(response) = plain::respond(&self, path, &query) {
            return Ok(response);
        }
        if let Some(response) = self.openapi.respond(path, &query, &parts.headers) {
            return Ok(response);
        }
        if let Some(response) = discovery::respond(path, &parts.headers) {
            return Ok(response);
        }
        let target = ResourcePath::parse(path).ok_or_else(Failure::no_such_path)?;
        let kind = registry::by_resource(&target.group, &target.version, &target.resource)
            .filter(|kind| kind.namespaced || target.namespace.is_none())
            .ok_or_else(Failure::no_such_path)?;
        if !target.subresource.is_empty() && kind.subresource(&target.subresource).is_none() {
            let missing = subresources::is_missing(kind.plural, &target.subresource);
            return Err(match missing {
                true => Failure::not_yet(&format!("{}/{}", kind.plural, target.subresource)),
                false => Failure::no_such_path(),
            });
        }
        let form = if subresources::is_stream(&target.subresource) {
            Form::Json
        } else {
            Form::negotiate(&parts.headers, &query)?
        };
        let body = match parts.method {
            Method::GET | Method::HEAD => bytes::Bytes::new(),
            _ => body::read(stream).await?,
        };
        let ctx = Context {
            server: self.clone(),
            kind,
            namespace: target.namespace,
            name: target.name,
            subresource: target.subresource,
            query,
            headers: parts.headers,
            form,
            body,
        };
        dispatch(parts.method, ctx).await
    }
}

async fn dispatch(method: Method, ctx: Context) -> Result<Response<Body>, Failure> {
    // An object of a namespaced kind is addressed with its namespace.
    if ctx.name.is_some() && ctx.kind.namespaced && ctx.namespace.is_none() {
        return Err(Failure::no_such_path());
    }
    if !ctx.subresource.is_empty() {
        return subresources::dispatch(method, ctx).await;
    }
    let watch = ctx.query.flag("watch");
    match (method, ctx.name.is_some()) {
        (Method::GET, _) if watch => verbs::watch::watch(ctx).await,
        (Method::GET | Method::HEAD, true) => verbs::get::get(&ctx),
        (Method::GET | Method::HEAD, false) => verbs::list::list(&ctx),
        (Method::POST, false) => verbs::create::create(&ctx).await,
        (Method::PUT, true) => verbs::update::update(&ctx, verbs::modify::Part::Whole).await,
        (Method::PATCH, true) => verbs::patch::patch(&ctx, verbs::modify::Part::Whole).await,
        (Method::DELETE, true) => verbs::delete::delete(&ctx).await,
        (Method::DELETE, false) => verbs::delete::delete_collection(&ctx).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Verb and resource of a request for metrics, from the path alone so that failed requests count as well.
struct Label {
    verb: String,
    resource: String,
}

impl Label {
    fn of(method: &Method, path: &str, query: Option<&str>) -> Self {
        let target = ResourcePath::parse(path).unwrap_or_default();
        let known = registry::by_resource(&target.group, &target.version, &target.resource);
        let watch = Query::parse(query).flag("watch");
        let verb = match (method.as_str(), target.name.is_some()) {
            ("GET", _) if watch => "WATCH",
            ("GET", false) if known.is_some() => "LIST",
            ("DELETE", false) => "DELETECOLLECTION",
            (other, _) => other,
        };
        let resource = known.map(|kind| kind.plural).unwrap_or_default();
        Self { verb: verb.to_owned(), resource: resource.to_owned() }
    }
}
