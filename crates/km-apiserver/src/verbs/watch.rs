//! Watches: what changes, as a stream of lines.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use km_store::{Event, EventKind, Query as StoreQuery, StoreError, Stored, Watcher};
use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::selection::Selection;
use crate::{
    context::Context,
    failure::Failure,
    metrics::WatchGuard,
    negotiate::Form,
    render::{self, ListMeta},
};

/// How often an idle watch tells how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The annotation of the bookmark that ends the initial events of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// GET with `watch`.
pub async fn watch(ctx: Context) -> Result<Response<Body>, Failure> {
    let selection = Selection::of(&ctx)?;
    let options = Options::of(&ctx)?;
    let mut lines = VecDeque::new();
    let mut first_table = true;
    let mut start = options.start;
    if options.initial_events {
        let page = initial(&ctx, &selection)?;
        let mut out = BytesMut::new();
        for stored in &page.items {
            line(&ctx, &mut out, "ADDED", stored, &mut first_table);
        }
        if options.marks_end {
            bookmark(&ctx, &mut out, page.revision, true);
        }
        if !out.is_empty() {
            lines.push_back(out.freeze());
        }
        start = page.revision;
    }
    let watcher = match ctx.server.store.watch(ctx.kind.storage, ctx.namespace.as_deref(), start) {
        Ok(watcher) => Some(watcher),
        Err(error @ StoreError::Compacted { .. }) => {
            lines.push_back(error_line(&ctx, error));
            None
        }
        Err(error) => return Err(Failure::from_store(error, ctx.kind, "")),
    };
    let mut bookmarks = tokio::time::interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
    bookmarks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let guard = ctx.server.metrics.watch_started(ctx.kind.plural);
    let deadline = Instant::now() + options.timeout;
    let stream = Stream { ctx, selection, watcher, lines, first_table, bookmarks, options, deadline, _guard: guard };
    let body = futures::stream::unfold(stream, |mut stream| async move {
        stream.next().await.map(|bytes| (Ok::<Bytes, Infallible>(bytes), stream))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

struct Options {
    /// The revision after which changes are wanted, when no initial events are.
    start: u64,
    /// Whether the present objects come first.
    initial_events: bool,
    /// Whether a bookmark tells where the initial events end.
    marks_end: bool,
    bookmarks: bool,
    timeout: Duration,
}

impl Options {
    fn of(ctx: &Context) -> Result<Self, Failure> {
        let version = ctx.query.resource_version()?;
        let bookmarks = ctx.query.flag("allowWatchBookmarks");
        let matching = ctx.query.get("resourceVersionMatch");
        let streaming = ctx.query.get("sendInitialEvents").map(|text| text == "true" || text == "1");
        if streaming.is_some() && matching != Some("NotOlderThan") {
            return Err(Failure::invalid_options(
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires \
                 setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if streaming == Some(true) && !bookmarks {
            return Err(Failure::invalid_options(
                "ListOptions.meta.k8s.io \"\" is invalid: allowWatchBookmarks: Forbidden: sendInitialEvents requires \
                 allowWatchBookmarks",
            ));
        }
        if streaming.is_none() && matching.is_some() {
            return Err(Failure::invalid_options(
                "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is \
                 forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        let current = ctx.server.store.revision();
        if let Some(version) = version.filter(|version| *version > current) {
            return Err(Failure::future_version(version, current));
        }
        let from_now = version.unwrap_or(0) == 0;
        let initial_events = streaming.unwrap_or(from_now);
        let seconds = match ctx.query.number::<u64>("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => seconds,
            // Spread, so that watches that began together don't end together.
            _ => rand::random_range(1800..3600),
        };
        Ok(Self {
            start: version.filter(|_| !from_now).unwrap_or(current),
            initial_events,
            marks_end: streaming == Some(true),
            bookmarks,
            timeout: Duration::from_secs(seconds),
        })
    }
}

fn initial(ctx: &Context, selection: &Selection) -> Result<km_store::Page, Failure> {
    let matches = |stored: &Stored| selection.matches(stored);
    let query = StoreQuery {
        resource: ctx.kind.storage,
        namespace: ctx.namespace.as_deref(),
        at: None,
        after: None,
        limit: 0,
        matches: &matches,
    };
    ctx.server.store.list(&query).map_err(|error| Failure::from_store(error, ctx.kind, ""))
}

struct Stream {
    ctx: Context,
    selection: Selection,
    /// `None` once nothing more will come.
    watcher: Option<Watcher>,
    lines: VecDeque<Bytes>,
    /// Whether the next table still has to name its columns.
    first_table: bool,
    bookmarks: Interval,
    options: Options,
    deadline: Instant,
    _guard: WatchGuard,
}

enum Step {
    Changes(Result<Vec<Arc<Event>>, StoreError>),
    Bookmark,
    End,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let watcher = self.watcher.as_mut()?;
            let step = tokio::select! {
                biased;
                () = self.ctx.server.stop.cancelled() => Step::End,
                changes = watcher.next() => Step::Changes(changes),
                () = tokio::time::sleep_until(self.deadline) => Step::End,
                _ = self.bookmarks.tick(), if self.options.bookmarks => Step::Bookmark,
            };
            let mut out = BytesMut::new();
            match step {
                Step::Changes(Ok(events)) => {
                    for event in events {
                        self.render(&mut out, &event);
                    }
                }
                Step::Changes(Err(StoreError::Closed)) => self.watcher = None,
                Step::Changes(Err(error)) => {
                    out = BytesMut::from(error_line(&self.ctx, error).as_ref());
                    self.watcher = None;
                }
                Step::Bookmark => {
                    let revision = watcher.progress();
                    bookmark(&self.ctx, &mut out, revision, false);
                }
                Step::End => {
                    if self.options.bookmarks {
                        let revision = watcher.progress();
                        bookmark(&self.ctx, &mut out, revision, false);
                    }
                    self.watcher = None;
                }
            }
            if !out.is_empty() {
                self.lines.push_back(out.freeze());
            }
        }
    }

    /// A change as this watch sees it: objects that begin to match are added, those that cease to are deleted.
    fn render(&mut self, out: &mut BytesMut, event: &Event) {
        let before = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        let after = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
        match (before, after) {
            (false, false) => {}
            (false, true) => line(&self.ctx, out, "ADDED", &event.object, &mut self.first_table),
            (true, true) => line(&self.ctx, out, "MODIFIED", &event.object, &mut self.first_table),
            (true, false) if event.kind == EventKind::Deleted => {
                line(&self.ctx, out, "DELETED", &event.object, &mut self.first_table);
            }
            (true, false) => {
                let Some(previous) = &event.previous else { return };
                let last = with_revision(previous, event.revision());
                line(&self.ctx, out, "DELETED", &last, &mut self.first_table);
            }
        }
    }
}

/// The last version that a watch could see, under the revision at which it went out of sight.
fn with_revision(stored: &Stored, revision: u64) -> Stored {
    let mut value = stored.value();
    value["metadata"]["resourceVersion"] = revision.to_string().into();
    Stored { revision, json: value.to_string().into(), ..stored.clone() }
}

fn line(ctx: &Context, out: &mut BytesMut, kind: &str, stored: &Stored, first_table: &mut bool) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    match ctx.form {
        Form::Json => out.put_slice(&render::document(ctx.kind, stored)),
        Form::Partial => out.put_slice(render::partial(&stored.value()).to_string().as_bytes()),
        Form::Table(include) => {
            let meta = ListMeta { revision: stored.revision, ..ListMeta::default() };
            let table = render::table(ctx.kind, include, [stored], &meta, *first_table);
            *first_table = false;
            out.put_slice(table.to_string().as_bytes());
        }
    }
    out.put_slice(b"}\n");
}

fn bookmark(ctx: &Context, out: &mut BytesMut, revision: u64, ends_initial: bool) {
    let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
    if ends_initial {
        metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
    }
    let mut object: Value =
        json!({ "kind": ctx.kind.kind, "apiVersion": ctx.kind.api_version(), "metadata": metadata });
    match ctx.form {
        Form::Json => {}
        Form::Partial => object = render::partial(&object),
        Form::Table(_) => {
            object = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": { "resourceVersion": revision.to_string() },
                "columnDefinitions": [],
                "rows": [{ "cells": [], "object": render::partial(&object) }],
            });
        }
    }
    out.put_slice(json!({ "type": "BOOKMARK", "object": object }).to_string().as_bytes());
    out.put_u8(b'\n');
}

fn error_line(ctx: &Context, error: StoreError) -> Bytes {
    let status = Failure::from_store(error, ctx.kind, "").status();
    Bytes::from(json!({ "type": "ERROR", "object": status }).to_string() + "\n")
}
