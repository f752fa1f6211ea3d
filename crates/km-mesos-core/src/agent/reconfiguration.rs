//! Whether an agent may go on as the one that it was, though its flags changed.

use km_mesos_proto::{
    resources::{Resource, Resources},
    v1,
};

/// How much may change between two starts on the same work directory; the flag `reconfiguration_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconfiguration {
    /// Nothing.
    #[default]
    Equal,
    /// More resources and attributes may be there, none may be gone.
    Additive,
    /// Everything, which Apache Mesos has no word for. Tasks that do not fit any more go on: the agent is offered again
    /// when enough of them have ended.
    Any,
}

/// Compares what the agent was with what it is to be; the error says what does not fit.
pub(super) fn check(old: &v1::AgentInfo, new: &v1::AgentInfo, policy: Reconfiguration) -> Result<(), String> {
    match policy {
        Reconfiguration::Equal => equal(old, new),
        Reconfiguration::Additive => additive(old, new),
        Reconfiguration::Any => Ok(()),
    }
}

fn equal(old: &v1::AgentInfo, new: &v1::AgentInfo) -> Result<(), String> {
    let new = v1::AgentInfo { id: old.id.clone(), ..new.clone() };
    if *old == new {
        return Ok(());
    }
    Err("Incompatible agent info detected: it must not change (--reconfiguration-policy=equal)".to_owned())
}

fn additive(old: &v1::AgentInfo, new: &v1::AgentInfo) -> Result<(), String> {
    let ensure = |holds: bool, reason: String| if holds { Ok(()) } else { Err(reason) };
    ensure(old.hostname == new.hostname, changed("hostname", &old.hostname, &new.hostname))?;
    ensure(old.port == new.port, format!("The port changed from {:?} to {:?}", old.port, new.port))?;
    ensure(old.domain.is_none() || old.domain == new.domain, "The domain changed".to_owned())?;
    let read = |info: &v1::AgentInfo| Resources::from_protos(&info.resources).map_err(|error| error.to_string());
    let (had, has) = (read(old)?, read(new)?);
    ensure(has.contains(&had), format!("Resources {has} do not contain the earlier {had}"))?;
    for attribute in &old.attributes {
        let kept = new.attributes.iter().any(|other| extends(other, attribute));
        ensure(kept, format!("Attribute '{}' is gone or changed", attribute.name))?;
    }
    Ok(())
}

fn changed(what: &str, old: &str, new: &str) -> String {
    format!("The {what} changed from '{old}' to '{new}'")
}

/// Text and numbers stay as they were; ranges and sets may grow.
fn extends(new: &v1::Attribute, old: &v1::Attribute) -> bool {
    if new.name != old.name || new.r#type != old.r#type {
        return false;
    }
    let within = |(begin, end): (u64, u64), ranges: &v1::value::Ranges| {
        ranges.range.iter().any(|range| range.begin <= begin && end <= range.end)
    };
    match (&old.ranges, &new.ranges, &old.set, &new.set) {
        (Some(old), Some(new), ..) => old.range.iter().all(|range| within((range.begin, range.end), new)),
        (.., Some(old), Some(new)) => old.item.iter().all(|item| new.item.contains(item)),
        _ => new == old,
    }
}

/// What reservations and volumes made of earlier resources, on the resources that there are now.
pub(super) fn reshape(shaped: &[v1::Resource], now: &[v1::Resource]) -> Result<Vec<v1::Resource>, String> {
    let read = |resources: &[v1::Resource]| Resources::from_protos(resources).map_err(|error| error.to_string());
    let mut total = read(now)?;
    for resource in read(shaped)?.iter().filter(|resource| is_made(resource)) {
        let plain = Resources::from(plain(resource));
        if !total.contains(&plain) {
            return Err(format!(
                "Incompatible agent resources: {total} does not contain {plain}, which {resource} needs"
            ));
        }
        total -= &plain;
        total += Resources::from(resource.clone());
    }
    Ok(total.to_protos())
}

/// Whether operations made it, not the flags.
fn is_made(resource: &Resource) -> bool {
    resource.is_dynamically_reserved() || resource.is_persistent_volume()
}

/// What it was made of.
fn plain(resource: &Resource) -> Resource {
    let mut plain = resource.clone();
    while plain.is_dynamically_reserved() {
        plain.reservations.pop();
    }
    if plain.is_persistent_volume() {
        let source = plain.disk.as_ref().and_then(|disk| disk.source.clone());
        plain.disk = source.map(|source| v1::resource::DiskInfo { source: Some(source), ..Default::default() });
        plain.shared = false;
    }
    plain
}

#[cfg(test)]
mod tests {
    use km_mesos_proto::resources::attributes;

    use super::*;

    fn info(resources: &str, attributes: &str) -> v1::AgentInfo {
        v1::AgentInfo {
            hostname: "host".to_owned(),
            port: Some(5051),
            resources: protos(resources),
            attributes: attributes::parse(attributes).unwrap(),
            ..Default::default()
        }
    }

    fn protos(text: &str) -> Vec<v1::Resource> {
        Resources::parse(text, "*").unwrap().to_protos()
    }

    #[test]
    fn more_may_come_and_nothing_may_go() {
        let old = info("cpus:2;mem:512;ports:[1-10]", "rack:r1;span:[1-5]");
        let cases = [
            ("cpus:2;mem:512;ports:[1-10]", "rack:r1;span:[1-5]", true, true),
            ("cpus:3;mem:512;ports:[1-20];disk:5", "rack:r1;span:[1-9];new:x", true, false),
            ("cpus:1;mem:512;ports:[1-10]", "rack:r1;span:[1-5]", false, false),
            ("cpus:2;ports:[1-10]", "rack:r1;span:[1-5]", false, false),
            ("cpus:2;mem:512;ports:[2-10]", "rack:r1;span:[1-5]", false, false),
            ("cpus:2;mem:512;ports:[1-10]", "rack:r2;span:[1-5]", false, false),
            ("cpus:2;mem:512;ports:[1-10]", "rack:r1;span:[2-5]", false, false),
            ("cpus:2;mem:512;ports:[1-10]", "span:[1-5]", false, false),
        ];
        for (resources, attributes, additive, equal) in cases {
            let new = info(resources, attributes);
            assert_eq!(check(&old, &new, Reconfiguration::Additive).is_ok(), additive, "{resources} {attributes}");
            assert_eq!(check(&old, &new, Reconfiguration::Equal).is_ok(), equal, "{resources} {attributes}");
            assert_eq!(check(&old, &new, Reconfiguration::Any), Ok(()));
        }
        let elsewhere = v1::AgentInfo { port: Some(5052), ..old.clone() };
        assert!(check(&old, &elsewhere, Reconfiguration::Additive).is_err());
    }

    #[test]
    fn reservations_stay_where_there_is_room_for_them() {
        let mut reserved = Resources::parse("cpus:1", "*").unwrap().to_protos();
        reserved[0].reservations = vec![v1::resource::ReservationInfo {
            r#type: Some(v1::resource::reservation_info::Type::Dynamic as i32),
            role: Some("a".to_owned()),
            ..Default::default()
        }];
        let shaped = [protos("cpus:1;mem:512"), reserved.clone()].concat();
        let grown = reshape(&shaped, &protos("cpus:4;mem:512")).unwrap();
        let expected = [protos("cpus:3;mem:512"), reserved].concat();
        assert_eq!(Resources::from_protos(&grown).unwrap(), Resources::from_protos(&expected).unwrap());
        assert!(reshape(&shaped, &protos("mem:512")).unwrap_err().contains("cpus"));
    }
}
