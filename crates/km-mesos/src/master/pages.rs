//! The older read endpoints. Any method reads, as in Apache Mesos.

use axum::body::Body;
use http::{Response, StatusCode};
use km_mesos_core::master::Page;
use km_mesos_proto::json::to_ascii_vec;

use super::{
    auth::Realm,
    routes::{Call, parameters},
    shell::Shell,
};
use crate::wire::answer;

pub(super) fn serve(shell: &Shell, call: &Call, page: Page) -> Response<Body> {
    // The version belongs to the process, not to the master. Pages that can be written too want a writer's credentials.
    let realm = match page {
        Page::Version => None,
        Page::Weights | Page::Quota | Page::MaintenanceSchedule => Some(Realm::ReadWrite),
        _ => Some(Realm::ReadOnly),
    };
    if let Some(Err(refusal)) = realm.map(|realm| shell.auth.principal(realm, &call.parts.headers)) {
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
