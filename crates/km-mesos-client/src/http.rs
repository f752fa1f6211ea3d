//! One POST to a Mesos server: redirects followed, failures told apart, repeated while that helps and time is left.

use std::{fmt, future::Future, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION},
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{Authority, ClientError, Encoding, Tls, backoff::Backoff, redirect, tls};

/// Names the subscription that a scheduler's call belongs to.
pub(crate) const STREAM_ID: HeaderName = HeaderName::from_static("mesos-stream-id");

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Error texts are sentences; more than this isn't one.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// A principal and its secret, sent as HTTP basic authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Who calls.
    pub principal: String,
    /// The proof.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Credentials {
    pub(crate) fn authorization(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.principal, self.secret)))
    }
}

/// An HTTP/1.1 client. A stream occupies its connection, so other calls go over others.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: reqwest::Client,
    scheme: &'static str,
    authorization: Option<HeaderValue>,
}

/// What is posted.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub path: &'static str,
    pub encoding: Encoding,
    pub body: Bytes,
    pub stream_id: Option<HeaderValue>,
}

/// How long to try, and how to wait between attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub deadline: Duration,
    pub backoff_base: Duration,
    pub backoff_cap: Duration,
}

impl Http {
    /// `authorization` is the whole value of the header. With `tls`, https is spoken, and nothing else.
    pub fn new(authorization: Option<String>, tls: Option<&Tls>) -> Result<Self, ClientError> {
        let setup = |reason: String| ClientError::Setup(reason);
        let mut header = authorization.map(HeaderValue::try_from).transpose().map_err(|e| setup(e.to_string()))?;
        if let Some(value) = &mut header {
            value.set_sensitive(true);
        }
        let (scheme, config) = match tls {
            Some(tls) => ("https", tls.config()),
            None => ("http", tls::none().map_err(|error| setup(error.to_string()))?),
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Duration::from_secs(15))
            .build()
            .map_err(|error| setup(describe(&error)))?;
        Ok(Self { client, scheme, authorization: header })
    }

    /// Posts to `server`, or where it redirects to. The answer is a success; its body is still to be read.
    pub async fn post(&self, server: &Authority, post: &Post) -> Result<(Authority, Response), ClientError> {
        let mut asked = vec![server.clone()];
        loop {
            let server = asked[asked.len() - 1].clone();
            let response = self.request(&server, post).send().await.map_err(|error| failure(&server, &error))?;
            match response.status() {
                status if status.is_success() => return Ok((server, response)),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                    let next = redirected(&server, &response)?;
                    redirect::check(&asked, &next)
                        .map_err(|reason| ClientError::Redirect { server: server.clone(), reason })?;
                    asked.push(next);
                }
                status => {
                    let body = error_body(response).await;
                    return Err(ClientError::Status { server, status: status.as_u16(), body });
                }
            }
        }
    }

    fn request(&self, server: &Authority, post: &Post) -> reqwest::RequestBuilder {
        let mut request = self
            .client
            .post(format!("{}://{server}{}", self.scheme, post.path))
            .header(CONTENT_TYPE, post.encoding.content_type())
            .header(ACCEPT, post.encoding.content_type())
            .body(post.body.clone());
        if let Some(stream_id) = &post.stream_id {
            request = request.header(STREAM_ID, stream_id);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
    }
}

/// Repeats `attempt`, which is told its number from 0, until it succeeds, fails for good, or time is up.
/// `repeatable`: a second attempt does no harm even if the first had its effect.
pub(crate) async fn persist<T, F>(
    patience: Patience,
    repeatable: bool,
    mut attempt: impl FnMut(usize) -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let end = Instant::now() + patience.deadline;
    let mut backoff = Backoff::new(patience.backoff_base, patience.backoff_cap);
    let after = patience.deadline;
    let mut last = None;
    for number in 0.. {
        let error = match timeout_at(end, attempt(number)).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if is_worth_repeating(&error, repeatable) => error,
            Ok(Err(error)) => return Err(error),
            Err(_) => break,
        };
        let wait = backoff.next(rand::random());
        tracing::debug!(%error, number, ?wait, "Mesos call failed, trying again");
        last = Some(Box::new(error));
        if Instant::now() + wait >= end {
            return Err(ClientError::Deadline { after, last, unresolved: false });
        }
        sleep(wait).await;
    }
    Err(ClientError::Deadline { after, last, unresolved: true })
}

fn is_worth_repeating(error: &ClientError, repeatable: bool) -> bool {
    match error {
        // Not arrived, or arrived where nobody leads yet.
        ClientError::Connect { .. } | ClientError::Redirect { .. } => true,
        ClientError::AddressFile { .. } | ClientError::NoLeader(_) => true,
        // A starting master or agent answers 404 until its routes are there, then 503 until it has recovered: both say
        // that nothing was done. Of the others nobody knows whether the call had its effect.
        ClientError::Status { status: 404 | 503, .. } => true,
        ClientError::Status { status: 500 | 502 | 504, .. } => repeatable,
        ClientError::Interrupted { .. } | ClientError::Closed => repeatable,
        _ => false,
    }
}

fn redirected(server: &Authority, response: &Response) -> Result<Authority, ClientError> {
    let nowhere = |reason: String| ClientError::Redirect { server: server.clone(), reason };
    let location = response.headers().get(LOCATION).ok_or_else(|| nowhere("no Location header".to_owned()))?;
    let location = location.to_str().map_err(|error| nowhere(error.to_string()))?;
    let target = redirect::target(location).map_err(|error| nowhere(error.to_string()))?;
    target.ok_or_else(|| nowhere(format!("the Location '{location}' names no server")))
}

async fn error_body(mut response: Response) -> String {
    let mut body = Vec::new();
    // A text cut short by the connection's end still says more than none.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= MAX_ERROR_BODY {
            body.truncate(MAX_ERROR_BODY);
            break;
        }
    }
    String::from_utf8_lossy(&body).trim().to_owned()
}

pub(crate) fn failure(server: &Authority, error: &reqwest::Error) -> ClientError {
    let (server, reason) = (server.clone(), describe(error));
    match error.is_connect() {
        true => ClientError::Connect { server, reason },
        false => ClientError::Interrupted { server, reason },
    }
}

/// An error with its causes, which is where the system's words stand.
fn describe(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_ready_is_asked_again_and_a_refusal_is_final() {
        let server: Authority = Authority { host: "127.0.0.1".to_owned(), port: 5051 };
        let answered = |status| ClientError::Status { server: server.clone(), status, body: String::new() };
        for (status, once, repeatable) in [
            (404, true, true),
            (503, true, true),
            (500, false, true),
            (502, false, true),
            (504, false, true),
            (400, false, false),
            (401, false, false),
            (403, false, false),
        ] {
            assert_eq!(is_worth_repeating(&answered(status), false), once, "{status}");
            assert_eq!(is_worth_repeating(&answered(status), true), repeatable, "{status}");
        }
    }
}
