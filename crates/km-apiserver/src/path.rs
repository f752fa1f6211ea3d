//! What a URL path asks for.

use percent::decode;

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    /// The plural resource name; empty for the discovery document of a group version.
    pub resource: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// Empty for the object itself. What follows the subresource's name is dropped.
    pub subresource: String,
}

impl ResourcePath {
    /// Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`; `None` for any other path.
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/').map(decode);
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<String> = parts.collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let (namespace, rest) = match rest.as_slice() {
            // `namespaces/x`, `namespaces/x/status` and `namespaces/x/finalize` are about the namespace itself.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest.as_slice()),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            other => (None, other),
        };
        let (resource, name, subresource) = match rest {
            [] => ("", None, ""),
            [resource] => (*resource, None, ""),
            [resource, name] => (*resource, Some((*name).to_owned()), ""),
            [resource, name, subresource, ..] => (*resource, Some((*name).to_owned()), *subresource),
        };
        let (resource, subresource) = (resource.to_owned(), subresource.to_owned());
        Some(Self { group, version, resource, namespace, name, subresource })
    }
}

/// Percent-encoding, of paths and of query strings.
pub(crate) mod percent {
    /// Decodes `%XX`; what is no valid escape or not UTF-8 stays as it is.
    pub(crate) fn decode(text: &str) -> String {
        if !text.contains('%') {
            return text.to_owned();
        }
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut index = 0;
        while index < bytes.len() {
            let escaped = (bytes[index] == b'%')
                .then(|| bytes.get(index + 1..index + 3))
                .flatten()
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            match escaped {
                Some(byte) => {
                    out.push(byte);
                    index += 3;
                }
                None => {
                    out.push(bytes[index]);
                    index += 1;
                }
            }
        }
        String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let read = |path: &str| {
            let path = ResourcePath::parse(path)?;
            let (ns, name) = (path.namespace.unwrap_or_default(), path.name.unwrap_or_default());
            Some([path.group, path.version, path.resource, ns, name, path.subresource].join("|"))
        };
        for (path, expected) in [
            ("/api/v1", "|v1||||"),
            ("/api/v1/pods", "|v1|pods|||"),
            ("/api/v1/namespaces", "|v1|namespaces|||"),
            ("/api/v1/namespaces/x", "|v1|namespaces||x|"),
            ("/api/v1/namespaces/x/finalize", "|v1|namespaces||x|finalize"),
            ("/api/v1/namespaces/x/pods", "|v1|pods|x||"),
            ("/api/v1/namespaces/x/pods/p/log", "|v1|pods|x|p|log"),
            ("/apis/apps/v1/namespaces/x/deployments/d%2Da/scale", "apps|v1|deployments|x|d-a|scale"),
            ("/api/v1/nodes/n/status/", "|v1|nodes||n|status"),
        ] {
            assert_eq!(read(path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(read("/version"), None);
        assert_eq!(read("/apis/apps"), None);
    }
}
