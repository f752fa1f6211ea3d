//! One container.

use super::at::{At, Errors};
use super::error::FieldError;
use super::{field_path, handler, resources, volume};
use crate::names;
use serde_json::json;

/// What a container's fields refer to.
pub(super) struct Around<'a> {
    pub volumes: &'a [&'a str],
    pub host_network: bool,
    /// An init container: probes and hooks only for sidecars.
    pub init: bool,
}

pub(super) fn container(at: &At<'_>, around: &Around<'_>, errors: &mut Errors) {
    at.field("name").need_text(names::dns1123_label, errors);
    let image = at.field("image");
    if image.need(errors) && image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
    at.field("imagePullPolicy").one_of(&["Always", "IfNotPresent", "Never"], errors);
    at.field("terminationMessagePolicy").one_of(&["File", "FallbackToLogsOnError"], errors);
    let restart = at.field("restartPolicy");
    restart.one_of(if around.init { &["Always"] } else { &["Always", "OnFailure", "Never"] }, errors);
    ports(&at.field("ports"), around.host_network, errors);
    environment(at, errors);
    mounts(&at.field("volumeMounts"), around.volumes, errors);
    resources::requirements(&at.field("resources"), errors);
    if around.init && restart.text() != "Always" {
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if at.field(name).is_set() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(at.field(name).forbidden(detail));
            }
        }
    } else {
        handler::probe(&at.field("livenessProbe"), true, errors);
        handler::probe(&at.field("startupProbe"), true, errors);
        handler::probe(&at.field("readinessProbe"), false, errors);
        handler::lifecycle(&at.field("lifecycle"), errors);
    }
    security_context(&at.field("securityContext"), errors);
}

fn ports(at: &At<'_>, host_network: bool, errors: &mut Errors) {
    at.unique("name", errors);
    for port in at.items() {
        port.field("name").follows(names::port_name, errors);
        let (inner, host) = (port.field("containerPort"), port.field("hostPort"));
        if inner.integer().is_none_or(|number| number == 0) {
            errors.push(inner.required(""));
        } else {
            inner.port(errors);
        }
        if host.integer().is_some_and(|number| number != 0) {
            host.port(errors);
            if host_network && host.value != inner.value {
                errors.push(host.invalid("must match `containerPort` when `hostNetwork` is true"));
            }
        }
        if port.field("protocol").is_empty() {
            errors.push(port.field("protocol").required(""));
        }
        port.field("protocol").one_of(&["SCTP", "TCP", "UDP"], errors);
        host_ip(&port.field("hostIP"), errors);
    }
}

fn host_ip(at: &At<'_>, errors: &mut Errors) {
    if !at.is_empty() && at.text().parse::<std::net::IpAddr>().is_err() {
        errors.push(at.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
}

fn environment(container: &At<'_>, errors: &mut Errors) {
    for env in container.field("env").items() {
        env.field("name").need_text(names::env_var_name, errors);
        let from = env.field("valueFrom");
        if !from.is_set() {
            continue;
        }
        if !env.field("value").is_empty() {
            errors.push(from.invalid("may not be specified when `value` is not empty"));
        }
        let kinds = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
        match kinds.iter().filter(|kind| from.field(kind).is_set()).count() {
            0 => errors.push(from.invalid("must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")),
            1 => {}
            _ => errors.push(from.invalid("may not have more than one field specified at a time")),
        }
        for kind in ["configMapKeyRef", "secretKeyRef"] {
            if from.field(kind).is_set() {
                from.field(kind).field("name").need(errors);
                from.field(kind).field("key").need_text(names::config_map_key, errors);
            }
        }
        if from.field("fieldRef").is_set() {
            field_path::of_variable(&from.field("fieldRef"), errors);
        }
        if from.field("resourceFieldRef").is_set() {
            from.down("resourceFieldRef.resource").need(errors);
        }
    }
    for source in container.field("envFrom").items() {
        source.field("prefix").follows(names::env_var_name, errors);
        match ["configMapRef", "secretRef"].map(|kind| source.field(kind)) {
            [map, secret] if map.is_set() && secret.is_set() => {
                errors.push(source.invalid("may not have more than one field specified at a time"));
            }
            [map, secret] if !map.is_set() && !secret.is_set() => {
                errors.push(source.invalid("must specify one of: `configMapRef` or `secretRef`"));
            }
            given => {
                given.into_iter().filter(At::is_set).for_each(|given| {
                    given.field("name").need(errors);
                });
            }
        }
    }
}

fn mounts(at: &At<'_>, volumes: &[&str], errors: &mut Errors) {
    let mut paths = Vec::new();
    for mount in at.items() {
        let name = mount.field("name");
        if name.need(errors) && !volumes.contains(&name.text()) {
            errors.push(FieldError::not_found(name.path.clone(), name.value));
        }
        let path = mount.field("mountPath");
        if path.need(errors) && paths.contains(&path.text()) {
            errors.push(path.invalid("must be unique"));
        }
        paths.push(path.text());
        volume::inside(&mount.field("subPath"), errors);
        volume::inside(&mount.field("subPathExpr"), errors);
        if !mount.field("subPath").is_empty() && !mount.field("subPathExpr").is_empty() {
            errors.push(mount.field("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive"));
        }
        mount.field("mountPropagation").one_of(&["Bidirectional", "HostToContainer", "None"], errors);
    }
}

fn security_context(at: &At<'_>, errors: &mut Errors) {
    for name in ["runAsUser", "runAsGroup"] {
        let id = at.field(name);
        if id.integer().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
            errors.push(id.invalid("must be between 0 and 2147483647, inclusive"));
        }
    }
    if at.field("privileged").is_true() && at.field("allowPrivilegeEscalation").value == &json!(false) {
        errors.push(at.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
    }
}
