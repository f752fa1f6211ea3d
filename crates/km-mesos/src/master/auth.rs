//! HTTP basic authentication.

use std::collections::HashMap;

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;

use super::flags::Flags;
use crate::wire::{Refusal, text};

/// What a request wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Realm {
    Scheduler,
    ReadOnly,
    ReadWrite,
}

impl Realm {
    fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "mesos-master-scheduler",
            Self::ReadOnly => "mesos-master-readonly",
            Self::ReadWrite => "mesos-master-readwrite",
        }
    }
}

/// Who may do what.
pub(super) struct Auth {
    secrets: HashMap<String, String>,
    scheduler: bool,
    read_only: bool,
    read_write: bool,
}

#[derive(Deserialize)]
struct CredentialsFile {
    credentials: Vec<Credential>,
}

#[derive(Deserialize)]
struct Credential {
    principal: String,
    #[serde(default)]
    secret: String,
}

impl Auth {
    pub fn from_flags(flags: &Flags) -> anyhow::Result<Self> {
        let mut secrets = HashMap::new();
        if let Some(path) = &flags.credentials {
            let content =
                std::fs::read(path).with_context(|| format!("--credentials: {} can't be read", path.display()))?;
            let file: CredentialsFile = serde_json::from_slice(&content)
                .with_context(|| format!("--credentials: {} has not the form of credentials", path.display()))?;
            secrets.extend(file.credentials.into_iter().map(|one| (one.principal, one.secret)));
        }
        Ok(Self {
            secrets,
            scheduler: flags.authenticate_http_frameworks,
            read_only: flags.authenticate_http_readonly,
            read_write: flags.authenticate_http_readwrite,
        })
    }

    /// The request's principal; none where authentication is off. The error is the answer 401.
    pub fn principal(&self, realm: Realm, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let needed = match realm {
            Realm::Scheduler => self.scheduler,
            Realm::ReadOnly => self.read_only,
            Realm::ReadWrite => self.read_write,
        };
        if !needed {
            return Ok(None);
        }
        match credentials(headers).filter(|(principal, secret)| self.secrets.get(principal) == Some(secret)) {
            Some((principal, _)) => Ok(Some(principal)),
            None => {
                let mut response = text(StatusCode::UNAUTHORIZED, "401 Unauthorized.");
                let challenge = format!("Basic realm=\"{}\"", realm.name());
                if let Ok(challenge) = header::HeaderValue::from_str(&challenge) {
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                }
                Err(Box::new(response))
            }
        }
    }
}

fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let plain = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (principal, secret) = plain.split_once(':')?;
    Some((principal.to_owned(), secret.to_owned()))
}
