//! A pod's spec, of a pod or of a template.

use super::at::{At, Errors};
use super::container::{Around, container};
use super::error::FieldError;
use super::{meta, resources, volume};
use crate::names;
use serde_json::json;

pub(super) fn spec(at: &At<'_>, errors: &mut Errors) {
    let volumes = volume::volumes(&at.field("volumes"), errors);
    containers(at, &volumes, errors);
    at.field("restartPolicy").one_of(&["Always", "Never", "OnFailure"], errors);
    if at.field("restartPolicy").is_empty() {
        errors.push(at.field("restartPolicy").required(""));
    }
    at.field("dnsPolicy").one_of(&["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"], errors);
    at.field("preemptionPolicy").one_of(&["Never", "PreemptLowerPriority"], errors);
    at.field("terminationGracePeriodSeconds").at_least(0, errors);
    let deadline = at.field("activeDeadlineSeconds");
    if deadline.integer().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        errors.push(deadline.invalid("must be between 1 and 2147483647, inclusive"));
    }
    meta::labels(&at.field("nodeSelector"), errors);
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        at.field(name).follows(names::dns1123_subdomain, errors);
    }
    for name in ["hostname", "subdomain"] {
        at.field(name).follows(names::dns1123_label, errors);
    }
    resources::amounts(&at.field("overhead"), errors);
    resources::requirements(&at.field("resources"), errors);
    if at.field("dnsPolicy").text() == "None" && at.down("dnsConfig.nameservers").is_empty() {
        let servers = at.down("dnsConfig.nameservers");
        errors.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
    }
    for toleration in &at.field("tolerations").items() {
        tolerations(toleration, errors);
    }
    spread(&at.field("topologySpreadConstraints"), errors);
    for alias in at.field("hostAliases").items() {
        let ip = alias.field("ip");
        if ip.text().parse::<std::net::IpAddr>().is_err() {
            errors.push(ip.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
        }
    }
    at.field("schedulingGates").unique("name", errors);
    node_affinity(&at.down("affinity.nodeAffinity"), errors);
}

fn containers(at: &At<'_>, volumes: &[&str], errors: &mut Errors) {
    let host_network = at.field("hostNetwork").is_true();
    let around = |init| Around { volumes, host_network, init };
    let main = at.field("containers");
    main.need(errors);
    let mut seen = Vec::new();
    for (list, init) in [(main.clone(), false), (at.field("initContainers"), true)] {
        for item in list.items() {
            let name = item.field("name");
            if !name.is_empty() && seen.contains(&name.text()) {
                errors.push(name.duplicate());
            }
            seen.push(name.text());
            container(&item, &around(init), errors);
        }
    }
    for item in at.field("ephemeralContainers").items() {
        let name = item.field("name");
        name.need_text(names::dns1123_label, errors);
        if !name.is_empty() && seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
        item.field("image").need(errors);
    }
    host_ports(&main, errors);
}

/// No two containers may claim the same port of the host.
fn host_ports(containers: &At<'_>, errors: &mut Errors) {
    let mut taken = Vec::new();
    for port in containers.items().iter().flat_map(|container| container.field("ports").items()) {
        let number = port.field("hostPort");
        let Some(host_port) = number.integer().filter(|port| *port != 0) else { continue };
        let claim = format!("{}/{}/{host_port}", port.field("protocol").text(), port.field("hostIP").text());
        if taken.contains(&claim) {
            errors.push(FieldError::duplicate(number.path, &json!(claim)));
        } else {
            taken.push(claim);
        }
    }
}

fn tolerations(at: &At<'_>, errors: &mut Errors) {
    at.field("key").follows(names::qualified_name, errors);
    let (key, operator, effect) = (at.field("key"), at.field("operator"), at.field("effect"));
    if key.is_empty() && operator.text() != "Exists" {
        errors.push(
            operator
                .invalid("operator must be Exists when `key` is empty, which means \"match all values and all keys\""),
        );
    }
    if at.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
        errors.push(effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
    match operator.text() {
        "" | "Equal" => at.field("value").follows(names::label_value, errors),
        "Exists" if !at.field("value").is_empty() => {
            errors.push(operator.invalid("value must be empty when `operator` is 'Exists'"));
        }
        _ => operator.one_of(&["Equal", "Exists", "Gt", "Lt"], errors),
    }
    effect.one_of(&["NoExecute", "NoSchedule", "PreferNoSchedule"], errors);
}

fn spread(at: &At<'_>, errors: &mut Errors) {
    for constraint in at.items() {
        let skew = constraint.field("maxSkew");
        if skew.integer().is_none_or(|skew| skew <= 0) {
            errors.push(skew.invalid("must be greater than zero"));
        }
        constraint.field("topologyKey").need_text(names::qualified_name, errors);
        constraint.field("whenUnsatisfiable").one_of(&["DoNotSchedule", "ScheduleAnyway"], errors);
        if constraint.field("whenUnsatisfiable").is_empty() {
            errors.push(constraint.field("whenUnsatisfiable").required(""));
        }
    }
}

fn node_affinity(at: &At<'_>, errors: &mut Errors) {
    let required = at.field("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() && required.field("nodeSelectorTerms").is_empty() {
        let terms = required.field("nodeSelectorTerms");
        errors.push(terms.required("must have at least one node selector term"));
    }
    let preferred = at.field("preferredDuringSchedulingIgnoredDuringExecution").items();
    for term in &preferred {
        let weight = term.field("weight");
        if weight.integer().is_none_or(|weight| !(1..=100).contains(&weight)) {
            errors.push(weight.invalid("must be in the range 1-100"));
        }
    }
    let terms = required.field("nodeSelectorTerms").items().into_iter();
    for term in terms.chain(preferred.iter().map(|term| term.field("preference"))) {
        for expression in term.field("matchExpressions").items() {
            expression.field("key").follows(names::qualified_name, errors);
            let operator = expression.field("operator");
            match (operator.text(), expression.field("values").items().len()) {
                ("In" | "NotIn", 0) => {
                    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                    errors.push(expression.field("values").required(detail));
                }
                ("Exists" | "DoesNotExist", 1..) => {
                    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.push(expression.field("values").forbidden(detail));
                }
                ("Gt" | "Lt", count) if count != 1 => {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.push(expression.field("values").required(detail));
                }
                ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
                _ => errors.push(operator.invalid("not a valid selector operator")),
            }
        }
    }
}
