//! Services: cluster IPs and node ports. Writes of services come one after the other, so what is taken is what the
//! stored services say, and nothing has to be booked or given back.

use serde_json::{Value, json};

use crate::{
    allocate::{Addresses, Ports},
    failure::Failure,
    registry::{Hooks, Kind, by_storage},
    server::Server,
};

pub const HOOKS: Hooks = Hooks {
    create: |server, service| complete(server, None, service),
    update: |server, old, service| complete(server, Some(old), service),
};

fn complete(server: &Server, old: Option<&Value>, service: &mut Value) -> Result<(), Failure> {
    let kind = text(&service["spec"]["type"]).to_owned();
    if kind == "ExternalName" {
        for field in ["clusterIP", "clusterIPs"] {
            remove(&mut service["spec"], field);
        }
        drop_node_ports(service);
        return Ok(());
    }
    let (addresses, ports) = taken(server, service)?;
    address(server, &addresses, old, service)?;
    if kind == "NodePort" || kind == "LoadBalancer" {
        node_ports(server, ports, old, service)
    } else {
        drop_node_ports(service);
        Ok(())
    }
}

/// What all other services hold.
fn taken(server: &Server, service: &Value) -> Result<(Addresses, Ports), Failure> {
    let own = (text(&service["metadata"]["namespace"]), text(&service["metadata"]["name"]));
    let mut addresses = server.service_addresses.clone();
    let mut ports = server.node_ports.clone();
    for stored in server.all("services")? {
        if (stored.key.namespace.as_str(), stored.key.name.as_str()) == own {
            continue;
        }
        let other = stored.value();
        addresses.take(text(&other["spec"]["clusterIP"]));
        for port in other["spec"]["ports"].as_array().into_iter().flatten() {
            ports.take(port["nodePort"].as_u64(), text(&port["protocol"]));
        }
    }
    Ok((addresses, ports))
}

fn address(server: &Server, free: &Addresses, old: Option<&Value>, service: &mut Value) -> Result<(), Failure> {
    let first = service.pointer("/spec/clusterIPs/0").map(text).unwrap_or_default();
    let own = text(&service["spec"]["clusterIP"]);
    let wanted = if own.is_empty() { first } else { own }.to_owned();
    let before = old.map(|old| text(&old["spec"]["clusterIP"])).unwrap_or_default();
    let name = text(&service["metadata"]["name"]).to_owned();
    let chosen = if wanted.is_empty() && !before.is_empty() {
        before.to_owned()
    } else if wanted.is_empty() {
        // The first address is the API server's own, whoever asks.
        let for_api_server = name == "kubernetes" && text(&service["metadata"]["namespace"]) == "default";
        let chosen = if for_api_server { Some(server.service_addresses.first()) } else { free.any() };
        chosen.ok_or_else(|| {
            let why = format!("failed to allocate a serviceIP: range {} is full", server.service_addresses);
            Failure::invalid_value(row(), &name, "spec.clusterIPs", "[]", &why)
        })?
    } else {
        if wanted != "None" && wanted != before {
            free.check(&wanted).map_err(|why| {
                let why = format!("failed to allocate IP {wanted}: {why}");
                Failure::invalid_value(row(), &name, "spec.clusterIPs", &format!("[\"{wanted}\"]"), &why)
            })?;
        }
        wanted
    };
    service["spec"]["clusterIP"] = chosen.clone().into();
    service["spec"]["clusterIPs"] = json!([chosen]);
    if service["spec"].get("ipFamilies").is_none() {
        service["spec"]["ipFamilies"] = json!(["IPv4"]);
    }
    if service["spec"].get("ipFamilyPolicy").is_none() {
        service["spec"]["ipFamilyPolicy"] = "SingleStack".into();
    }
    Ok(())
}

fn node_ports(server: &Server, mut free: Ports, old: Option<&Value>, service: &mut Value) -> Result<(), Failure> {
    let name = text(&service["metadata"]["name"]).to_owned();
    let old_ports = old.and_then(|old| old["spec"]["ports"].as_array()).cloned().unwrap_or_default();
    let mut ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
    // Those that are asked for come first, so that none of them is given to another port of the same service.
    for (index, port) in ports.iter_mut().enumerate() {
        let protocol = text(&port["protocol"]).to_owned();
        let same = old_ports.iter().find(|old| old["port"] == port["port"] && old["protocol"] == port["protocol"]);
        if port["nodePort"].as_u64().unwrap_or_default() == 0
            && let Some(before) = same.and_then(|old| old["nodePort"].as_u64())
        {
            port["nodePort"] = before.into();
        }
        if let Some(wanted) = port["nodePort"].as_u64().filter(|number| *number != 0) {
            free.check(wanted, &protocol).map_err(|why| {
                let field = format!("spec.ports[{index}].nodePort");
                Failure::invalid_value(row(), &name, &field, &wanted.to_string(), &why)
            })?;
            free.take(Some(wanted), &protocol);
        }
    }
    for (index, port) in ports.iter_mut().enumerate() {
        if port["nodePort"].as_u64().unwrap_or_default() == 0 {
            let protocol = text(&port["protocol"]).to_owned();
            let chosen = free.any(&protocol).ok_or_else(|| {
                let field = format!("spec.ports[{index}].nodePort");
                Failure::invalid_value(row(), &name, &field, "0", &format!("range {} is full", server.node_ports))
            })?;
            port["nodePort"] = chosen.into();
            free.take(Some(u64::from(chosen)), &protocol);
        }
    }
    service["spec"]["ports"] = ports.into();
    Ok(())
}

/// A port without a node port says so by absence.
fn drop_node_ports(service: &mut Value) {
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        remove(port, "nodePort");
    }
}

fn row() -> &'static Kind {
    static MISSING: &Kind = &crate::registry::KINDS[0];
    by_storage("services").unwrap_or(MISSING)
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
