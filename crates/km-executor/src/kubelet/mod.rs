//! The kubelet's HTTPS API: logs, pods, health. Running commands in containers is refused by name.
//!
//! Callers show a certificate of the cluster's authority; only `/healthz` and `/livez` answer anybody.

mod follow;
mod logs;
mod select;
#[cfg(test)]
mod tests;
mod tls;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    extract::Request,
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use k8s_openapi::{List, api::core::v1::Pod};
use km_observe::Admin;
use km_runtime::Runtime;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::table::PodTable;
pub use tls::{acceptor, authorities};

/// A client that has not finished its handshake by then is cut off.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What the handlers need.
#[derive(Clone)]
pub struct Served {
    pub table: PodTable,
    pub runtime: Arc<dyn Runtime>,
}

/// Whether the caller showed a valid certificate.
#[derive(Clone, Copy)]
struct Trusted(bool);

/// All routes. `admin` brings health and metrics.
pub fn router(served: Served, admin: Admin) -> Router {
    let own = Router::new()
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs::handle))
        .route("/pods", get(pods))
        .route("/runningpods", get(running_pods))
        .route("/runningpods/", get(running_pods))
        .with_state(served);
    ["exec", "attach", "portForward", "run", "checkpoint", "debug"]
        .into_iter()
        .fold(own, |router, name| router.route(&format!("/{name}/{{*rest}}"), any(not_implemented)))
        .merge(admin.router())
        .layer(middleware::from_fn(guard))
}

async fn guard(Extension(Trusted(trusted)): Extension<Trusted>, request: Request, next: Next) -> Response {
    if trusted || matches!(request.uri().path(), "/healthz" | "/livez") {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "Unauthorized: show a client certificate of the cluster's authority\n").into_response()
}

async fn not_implemented(request: Request) -> Response {
    let what = request.uri().path().split('/').nth(1).unwrap_or_default();
    let text = format!("{what} is not implemented on this node yet\n");
    (StatusCode::NOT_IMPLEMENTED, text).into_response()
}

async fn pods(served: axum::extract::State<Served>) -> Json<List<Pod>> {
    Json(List { items: served.table.pods(), ..Default::default() })
}

async fn running_pods(served: axum::extract::State<Served>) -> Json<List<Pod>> {
    let running = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    Json(List { items: served.table.pods().into_iter().filter(running).collect(), ..Default::default() })
}

/// Accepts connections until `stop`.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, router: Router, trust_all: bool, stop: CancellationToken) {
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Mostly too many open files: give others a chance to close theirs.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                result = connection(stream, tls, router, trust_all) => if let Err(error) = result {
                    tracing::debug!(%error, "a connection ended with an error");
                },
                () = stop.cancelled() => {}
            }
        });
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, router: Router, trust_all: bool) -> anyhow::Result<()> {
    let stream = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await??;
    // The verifier has let through no certificate of another authority.
    let trusted = trust_all || stream.get_ref().1.peer_certificates().is_some();
    let service = router.layer(Extension(Trusted(trusted)));
    let builder = auto::Builder::new(TokioExecutor::new());
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
    served.map_err(|error| anyhow::anyhow!("{error}"))
}
