//! The notation of resources in the cases.

use km_mesos_proto::{
    resources::{Ranges, Reservation, ReservationKind, Resource, Resources, Scalar, Value as Amount},
    v1::{self, resource::disk_info},
};
use serde_json::Value;

pub fn scalar(value: &Value) -> Scalar {
    Scalar::from_f64(value.as_f64().unwrap())
}

pub fn ranges(value: &Value) -> Ranges {
    match value {
        Value::String(text) => match km_mesos_proto::resources::ParsedValue::parse(text).unwrap() {
            km_mesos_proto::resources::ParsedValue::Ranges(ranges) => ranges,
            other => panic!("{other:?} is no ranges"),
        },
        list => list.as_array().unwrap().iter().map(|pair| number(&pair[0])..=number(&pair[1])).collect(),
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// A text, an object, or a list of both, added in order.
pub fn resources(value: &Value) -> Resources {
    match value {
        Value::String(text) => Resources::parse(text, "*").unwrap(),
        Value::Array(parts) => parts.iter().map(resources).sum(),
        object => resource(object).into(),
    }
}

pub fn resource(object: &Value) -> Resource {
    let amount = match &object["v"] {
        Value::Number(_) => Amount::Scalar(scalar(&object["v"])),
        Value::Array(_) => Amount::Ranges(ranges(&object["v"])),
        set => Amount::Set(set["set"].as_array().unwrap().iter().map(|item| text(item).unwrap()).collect()),
    };
    let mut resource = Resource::new(text(&object["n"]).unwrap(), amount);
    resource.reservations = object["res"].as_array().into_iter().flatten().map(reservation).collect();
    resource.allocation = text(&object["alloc"]);
    resource.revocable = object["rev"] == true;
    resource.shared = object["shared"] == true;
    resource.disk = object.get("disk").map(disk);
    resource
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn reservation(entry: &Value) -> Reservation {
    let labels = entry[3].as_object().map(|labels| v1::Labels {
        labels: labels.iter().map(|(key, value)| v1::Label { key: key.clone(), value: text(value) }).collect(),
    });
    let kind = match entry[0].as_str().unwrap() {
        "STATIC" => ReservationKind::Static,
        "DYNAMIC" => ReservationKind::Dynamic,
        other => panic!("unknown reservation type {other}"),
    };
    Reservation { kind, role: text(&entry[1]).unwrap(), principal: text(&entry[2]), labels }
}

fn disk(disk: &Value) -> v1::resource::DiskInfo {
    let id = text(&disk["pid"]);
    v1::resource::DiskInfo {
        persistence: id.map(|id| disk_info::Persistence { id, principal: None }),
        volume: text(&disk["path"]).map(|container_path| v1::Volume {
            container_path,
            mode: v1::volume::Mode::Rw.into(),
            ..Default::default()
        }),
        source: disk.get("src").map(source),
    }
}

fn source(source: &Value) -> disk_info::Source {
    let kind = disk_info::source::Type::from_str_name(source[0].as_str().unwrap()).unwrap();
    let root = text(&source[1]);
    disk_info::Source {
        r#type: kind.into(),
        path: (kind == disk_info::source::Type::Path).then(|| disk_info::source::Path { root: root.clone() }),
        mount: (kind == disk_info::source::Type::Mount).then_some(disk_info::source::Mount { root }),
        id: text(&source[2]),
        ..Default::default()
    }
}
