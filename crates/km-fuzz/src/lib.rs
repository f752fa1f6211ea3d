//! What must hold of every reader of outside text, whatever the text.
//!
//! A target takes any bytes and panics when its rule is broken. The test of this crate runs all of them on the files
//! below `seeds/` and on what random changes make of those; the folder `fuzz/` of the repository gives them to
//! libFuzzer, which finds its way by coverage (`cargo xtask fuzz`).

mod kubernetes;
mod mesos;
mod placement;
mod pods;

/// A rule about a reader.
#[derive(Clone, Copy)]
pub struct Target {
    /// As the file that holds it for the fuzzer, and the folder of its seeds.
    pub name: &'static str,
    /// Panics if the rule does not hold of these bytes.
    pub check: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 10] = [
    Target { name: "recordio", check: mesos::recordio },
    Target { name: "mesos_json", check: mesos::json },
    Target { name: "mesos_protobuf", check: mesos::protobuf },
    Target { name: "resources", check: mesos::resources },
    Target { name: "attributes", check: mesos::attributes },
    Target { name: "addresses", check: mesos::addresses },
    Target { name: "constraints", check: placement::constraints },
    Target { name: "pod", check: pods::pod },
    Target { name: "annotations", check: pods::annotations },
    Target { name: "kubernetes_syntax", check: kubernetes::syntax },
];

/// Checks one target by name, as the fuzzer's programs do.
///
/// # Panics
/// There is no such target, or its rule does not hold.
pub fn check(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("no target is called {name}")).check)(data);
}

/// The bytes as text; rules about text say nothing of other bytes.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
