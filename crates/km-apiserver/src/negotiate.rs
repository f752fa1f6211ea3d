//! In which form the client wants its answer.

use http::{HeaderMap, header};

use crate::{failure::Failure, query::Query};

/// The forms of objects and lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    /// Rows for people.
    Table(Include),
    /// Metadata alone.
    Partial,
}

/// How much of an object comes with its table row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Form {
    /// Takes the first form of the `Accept` header that this server has.
    pub fn negotiate(headers: &HeaderMap, query: &Query) -> Result<Self, Failure> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "" | "*/*" | "application/*" | "application/json" | "text/html") {
                continue;
            }
            let mut wanted = ("", "", "");
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("as", value)) => wanted.0 = value,
                    Some(("g", value)) => wanted.1 = value,
                    Some(("v", value)) => wanted.2 = value,
                    _ => {}
                }
            }
            match wanted {
                ("", ..) => return Ok(Self::Json),
                ("Table", "meta.k8s.io", "v1") => return Ok(Self::Table(include(query)?)),
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
                    return Ok(Self::Partial);
                }
                _ => {}
            }
        }
        Err(Failure::not_acceptable(
            "application/json, application/json;as=Table;g=meta.k8s.io;v=v1, \
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ))
    }
}

fn include(query: &Query) -> Result<Include, Failure> {
    match query.get("includeObject") {
        None | Some("Metadata") => Ok(Include::Metadata),
        Some("None") => Ok(Include::None),
        Some("Object") => Ok(Include::Object),
        Some(other) => Err(Failure::bad_request(format!("invalid includeObject {other:?}: None, Metadata or Object"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_form_wins() {
        let table = Some(Form::Table(Include::Metadata));
        for (accept, expected) in [
            ("", Some(Form::Json)),
            ("*/*", Some(Form::Json)),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Json)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io", table),
            ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(Form::Json)),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Form::Partial)),
            ("application/json;stream=watch", Some(Form::Json)),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(Form::negotiate(&headers, &Query::default()).ok(), expected, "{accept}");
        }
    }
}
