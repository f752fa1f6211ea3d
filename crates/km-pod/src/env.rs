//! A container's environment, command and arguments, from its spec and the objects it refers to.
//!
//! Order as in the kubelet: `envFrom` first, then `env`, later ones win; `$(NAME)` in a value sees what stands before
//! it. Variables of services stand in for those that the container doesn't set.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};

use crate::{
    downward::{self, NodeFacts},
    expand::expand,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    ConfigMap,
    Secret,
}

/// An object in the pod's namespace that a container refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceRef {
    pub kind: SourceKind,
    pub name: String,
}

/// The referred objects' data; an object that does not exist is absent.
pub type Sources = BTreeMap<SourceRef, BTreeMap<String, Vec<u8>>>;

/// The message of a `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// What a container is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    pub env: Vec<(String, String)>,
    pub command: Vec<String>,
    pub args: Vec<String>,
}

/// The objects whose data [`resolve`] needs.
pub fn references(container: &Container) -> BTreeSet<SourceRef> {
    let mut found = BTreeSet::new();
    let mut add = |kind, name: &str| found.insert(SourceRef { kind, name: name.to_owned() });
    for from in container.env_from.iter().flatten() {
        if let Some(map) = &from.config_map_ref {
            add(SourceKind::ConfigMap, &map.name);
        }
        if let Some(secret) = &from.secret_ref {
            add(SourceKind::Secret, &secret.name);
        }
    }
    for source in container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()) {
        if let Some(key) = &source.config_map_key_ref {
            add(SourceKind::ConfigMap, &key.name);
        }
        if let Some(key) = &source.secret_key_ref {
            add(SourceKind::Secret, &key.name);
        }
    }
    found
}

/// Environment, command and arguments of a container.
///
/// # Errors
/// An object or key that is not optional is missing, or a reference makes no sense.
pub fn resolve(
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
    sources: &Sources,
    services: BTreeMap<String, String>,
) -> Result<Invocation, ConfigError> {
    let mut env = Environment { services, ..Default::default() };
    for from in container.env_from.iter().flatten() {
        let (source, optional) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(map), _) => (SourceRef { kind: SourceKind::ConfigMap, name: map.name.clone() }, map.optional),
            (None, Some(secret)) => {
                (SourceRef { kind: SourceKind::Secret, name: secret.name.clone() }, secret.optional)
            }
            (None, None) => continue,
        };
        let Some(data) = object(sources, &source, optional)? else { continue };
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in data {
            env.set(format!("{prefix}{key}"), text(&source, key, value)?);
        }
    }
    for var in container.env.iter().flatten() {
        let value = match (&var.value, &var.value_from) {
            (Some(value), _) if !value.is_empty() => Some(expand(value, |name| env.get(name))),
            (_, Some(source)) => from_source(pod, container, facts, sources, source)?,
            _ => Some(String::new()),
        };
        if let Some(value) = value {
            env.set(var.name.clone(), value);
        }
    }
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, |name| env.get(name))).collect()
    };
    Ok(Invocation { command: expanded(&container.command), args: expanded(&container.args), env: env.all() })
}

/// Variables in order of their first setting.
#[derive(Default)]
struct Environment {
    list: Vec<(String, String)>,
    services: BTreeMap<String, String>,
}

impl Environment {
    fn get(&self, name: &str) -> Option<&str> {
        let set = self.list.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        set.or_else(|| self.services.get(name)).map(String::as_str)
    }

    fn set(&mut self, name: String, value: String) {
        self.list.retain(|(known, _)| *known != name);
        self.list.push((name, value));
    }

    fn all(mut self) -> Vec<(String, String)> {
        for (name, _) in &self.list {
            self.services.remove(name);
        }
        self.list.extend(self.services);
        self.list
    }
}

/// The value of a `valueFrom`; none when it is optional and missing.
fn from_source(
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
    sources: &Sources,
    source: &EnvVarSource,
) -> Result<Option<String>, ConfigError> {
    if let Some(field) = &source.field_ref {
        return downward::field(pod, facts, &field.field_path).map(Some).map_err(ConfigError);
    }
    if let Some(selector) = &source.resource_field_ref {
        return downward::resource(pod, Some(container), selector, facts).map(Some).map_err(ConfigError);
    }
    let (source, key, optional) = if let Some(selector) = &source.config_map_key_ref {
        (SourceRef { kind: SourceKind::ConfigMap, name: selector.name.clone() }, &selector.key, selector.optional)
    } else if let Some(selector) = &source.secret_key_ref {
        (SourceRef { kind: SourceKind::Secret, name: selector.name.clone() }, &selector.key, selector.optional)
    } else {
        return Err(ConfigError(
            "valueFrom must be one of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef".into(),
        ));
    };
    let Some(data) = object(sources, &source, optional)? else { return Ok(None) };
    match data.get(key) {
        Some(value) => text(&source, key, value).map(Some),
        None if optional == Some(true) => Ok(None),
        None => {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let (kind, name) = (title(source.kind), &source.name);
            Err(ConfigError(format!("couldn't find key {key} in {kind} {namespace}/{name}")))
        }
    }
}

fn object<'a>(
    sources: &'a Sources,
    source: &SourceRef,
    optional: Option<bool>,
) -> Result<Option<&'a BTreeMap<String, Vec<u8>>>, ConfigError> {
    match sources.get(source) {
        Some(data) => Ok(Some(data)),
        None if optional == Some(true) => Ok(None),
        None => Err(ConfigError(format!("{} {:?} not found", title(source.kind).to_lowercase(), source.name))),
    }
}

fn text(source: &SourceRef, key: &str, value: &[u8]) -> Result<String, ConfigError> {
    let (kind, name) = (title(source.kind), &source.name);
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(ConfigError(format!("key {key} in {kind} {name} is not text and cannot be a variable"))),
    }
}

fn title(kind: SourceKind) -> &'static str {
    match kind {
        SourceKind::ConfigMap => "ConfigMap",
        SourceKind::Secret => "Secret",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn sources() -> Sources {
        let data = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
        };
        let map = |name: &str| SourceRef { kind: SourceKind::ConfigMap, name: name.into() };
        let secret = |name: &str| SourceRef { kind: SourceKind::Secret, name: name.into() };
        Sources::from([(map("m"), data(&[("a", "1"), ("b", "2")])), (secret("s"), data(&[("pw", "x")]))])
    }

    fn run(container: Value) -> Result<Invocation, ConfigError> {
        let pod: Pod = from_value(json!({"metadata": {"name": "p", "namespace": "n"}})).unwrap();
        let container: Container = from_value(container).unwrap();
        let services = [("DB_SERVICE_HOST", "10.0.0.1"), ("DB_SERVICE_PORT", "80")];
        let services = services.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        resolve(&pod, &container, &NodeFacts::default(), &sources(), services)
    }

    fn env(list: Value) -> Result<Vec<(String, String)>, String> {
        let invocation = run(json!({"name": "c", "env": list})).map_err(|error| error.0)?;
        Ok(invocation.env.into_iter().filter(|(name, _)| !name.starts_with("DB_")).collect())
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn later_variables_win_and_see_earlier_ones() {
        let invocation = run(json!({"name": "c",
            "envFrom": [{"configMapRef": {"name": "m"}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
            "env": [{"name": "a", "value": "$(b)$(later)"}, {"name": "later", "value": "l"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "command": ["run", "$(POD)"], "args": ["$$(POD)", "$(P_pw)"]}))
        .unwrap();
        let expected = [("b", "2"), ("P_pw", "x"), ("a", "2$(later)"), ("later", "l"), ("POD", "p")];
        assert_eq!(invocation.env[..5], pairs(&expected));
        assert_eq!(
            (invocation.command, invocation.args),
            (vec!["run".to_owned(), "p".into()], vec!["$(POD)".to_owned(), "x".into()])
        );
    }

    #[test]
    fn variables_of_services_come_last_and_give_way() {
        let invocation = run(json!({"name": "c", "args": ["$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"],
            "env": [{"name": "URL", "value": "http://$(DB_SERVICE_HOST)"}, {"name": "DB_SERVICE_PORT", "value": "81"}]}))
        .unwrap();
        let expected = [("URL", "http://10.0.0.1"), ("DB_SERVICE_PORT", "81"), ("DB_SERVICE_HOST", "10.0.0.1")];
        assert_eq!((invocation.env, invocation.args), (pairs(&expected), vec!["10.0.0.1:81".to_owned()]));
    }

    #[test]
    fn missing_objects_and_keys_are_errors_unless_optional() {
        let key = |kind: &str, name: &str, key: &str, optional: bool| json!([{"name": "v", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}}]);
        assert_eq!(env(key("configMapKeyRef", "m", "a", false)), Ok(pairs(&[("v", "1")])));
        assert_eq!(env(key("configMapKeyRef", "no", "a", false)), Err("configmap \"no\" not found".into()));
        assert_eq!(env(key("secretKeyRef", "no", "a", false)), Err("secret \"no\" not found".into()));
        assert_eq!(env(key("secretKeyRef", "s", "no", false)), Err("couldn't find key no in Secret n/s".into()));
        assert_eq!(env(key("configMapKeyRef", "no", "a", true)), Ok(vec![]));
        assert_eq!(env(key("configMapKeyRef", "m", "no", true)), Ok(vec![]));
        let all = json!({"name": "c", "envFrom": [{"secretRef": {"name": "no"}}]});
        assert_eq!(run(all), Err(ConfigError("secret \"no\" not found".into())));
    }

    #[test]
    fn references_name_every_object() {
        let container: Container = from_value(json!({"name": "c",
            "envFrom": [{"configMapRef": {"name": "m"}}],
            "env": [{"name": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}))
        .unwrap();
        assert_eq!(references(&container).len(), 2);
    }
}
