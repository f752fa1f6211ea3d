//! The text form, as Mesos prints it:
//! `disk(allocated: a)(reservations: [(STATIC,a)])[MOUNT:/mnt,id:/host:/path:rw]{REV}<SHARED>:10<2>`.

use std::fmt;

use super::{Reservation, ReservationKind, Resource, Resources};
use crate::v1::{
    Labels, Volume,
    resource::{
        DiskInfo,
        disk_info::{Source, source},
    },
    volume,
};

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("{}");
        }
        for (index, entry) in self.entries.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}", entry.resource)?;
            if entry.resource.shared {
                write!(f, "<{}>", entry.copies)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(role) = &self.allocation {
            write!(f, "(allocated: {role})")?;
        }
        if self.is_reserved() {
            let reservations: Vec<String> = self.reservations.iter().map(ToString::to_string).collect();
            write!(f, "(reservations: [{}])", reservations.join(","))?;
        }
        if let Some(disk) = &self.disk {
            write!(f, "[{}]", disk_text(disk))?;
        }
        let revocable = if self.revocable { "{REV}" } else { "" };
        let shared = if self.shared { "<SHARED>" } else { "" };
        write!(f, "{revocable}{shared}:{}", self.value)
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ReservationKind::Static => "STATIC",
            ReservationKind::Dynamic => "DYNAMIC",
        };
        write!(f, "({kind},{}", self.role)?;
        if let Some(principal) = &self.principal {
            write!(f, ",{principal}")?;
        }
        if let Some(labels) = &self.labels {
            write!(f, ",{{{}}}", labels_text(labels))?;
        }
        f.write_str(")")
    }
}

fn labels_text(labels: &Labels) -> String {
    let pairs = labels.labels.iter().map(|label| match &label.value {
        Some(value) => format!("{}: {value}", label.key),
        None => label.key.clone(),
    });
    pairs.collect::<Vec<_>>().join(", ")
}

fn disk_text(disk: &DiskInfo) -> String {
    let mut text = disk.source.as_ref().map(source_text).unwrap_or_default();
    if let Some(persistence) = &disk.persistence {
        let separator = if disk.source.is_some() { "," } else { "" };
        text += &format!("{separator}{}", persistence.id);
    }
    if let Some(volume) = &disk.volume {
        text += &format!(":{}", volume_text(volume));
    }
    text
}

fn source_text(source: &Source) -> String {
    let (kind, root) = match source.r#type() {
        source::Type::Path => ("PATH", source.path.as_ref().and_then(|path| path.root.as_ref())),
        source::Type::Mount => ("MOUNT", source.mount.as_ref().and_then(|mount| mount.root.as_ref())),
        source::Type::Block => ("BLOCK", None),
        source::Type::Raw => ("RAW", None),
        source::Type::Unknown => ("UNKNOWN", None),
    };
    if source.id.is_some() || source.profile.is_some() {
        return format!("{kind}({},{},{})", source.vendor(), source.id(), source.profile());
    }
    root.map_or_else(|| kind.to_owned(), |root| format!("{kind}:{root}"))
}

fn volume_text(volume: &Volume) -> String {
    let Some(host_path) = &volume.host_path else { return volume.container_path.clone() };
    let mode = match volume.mode() {
        volume::Mode::Rw => "rw",
        volume::Mode::Ro => "ro",
    };
    format!("{host_path}:{}:{mode}", volume.container_path)
}
