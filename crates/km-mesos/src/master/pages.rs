//! The older read endpoints. Any method reads, as in Apache Mesos.

use axum::body::Body;
use http::{Response, StatusCode};
use km_mesos_core::master::Page;
use km_mesos_proto::json::to_ascii_vec;

use super::{
    auth::Realm,
    encoding::answer,
    routes::{Call, parameters},
    shell::Shell,
};

pub(super) fn serve(shell: &Shell, call: &Call, page: Page) -> Response<Body> {
    // Version and metrics belong to the process, not to the master: they are open to all.
    let open = matches!(page, Page::Version | Page::Metrics);
    if !open && let Err(refusal) = shell.auth.principal(Realm::ReadOnly, &call.parts.headers) {
        return *refusal;
    }
    let query = parameters(call.parts.uri.query().unwrap_or_default());
    let value = shell.core().page(page, &query);
    match query.get("jsonp") {
        Some(function) => {
            let mut script = format!("{function}(").into_bytes();
            script.extend(to_ascii_vec(&value));
            script.extend(b");");
            answer(StatusCode::OK, "text/javascript", script)
        }
        None => answer(StatusCode::OK, "application/json", to_ascii_vec(&value)),
    }
}
