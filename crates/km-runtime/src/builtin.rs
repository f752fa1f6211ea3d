//! Images that the binary carries, so that a machine without a registry can run pods.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    Result,
    images::{
        ImageStore,
        create::Node::{File, Folder, Link},
    },
    reference::Reference,
};

/// A small HTTP server that says where it runs; listens on `$PORT` (8080).
pub const HELLO: &str = "localhost/km/hello:v1";
/// A first process that waits to be told to end.
pub const PAUSE: &str = "localhost/km/pause:v1";
/// A shell and the usual tools; there when the host has a static `/bin/busybox`.
pub const BUSYBOX: &str = "localhost/km/busybox:v1";

const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
const GROUP: &[u8] = b"root:x:0:\nnobody:x:65534:\n";
const HOST_BUSYBOX: &str = "/bin/busybox";

static HELLO_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hello"));
static PAUSE_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pause"));

/// Stores the built-in images that are not there yet; returns their references. Blocking.
///
/// # Errors
/// The image store cannot be written.
pub fn ensure(image_root: &Path) -> Result<Vec<String>> {
    let store = ImageStore::open(image_root)?;
    let mut present = Vec::new();
    for (name, path, program, config) in [
        (HELLO, "hello", HELLO_PROGRAM, json!({ "Entrypoint": ["/hello"], "ExposedPorts": { "8080/tcp": {} } })),
        (PAUSE, "pause", PAUSE_PROGRAM, json!({ "Entrypoint": ["/pause"] })),
    ] {
        let nodes = [
            ("etc", Folder { mode: 0o755 }),
            ("etc/passwd", File { mode: 0o644, content: PASSWD }),
            ("etc/group", File { mode: 0o644, content: GROUP }),
            ("tmp", Folder { mode: 0o1777 }),
            (path, File { mode: 0o755, content: program }),
        ];
        let reference: Reference = name.parse()?;
        store.create(&reference, &nodes, &config)?;
        present.push(reference.to_string());
    }
    if let Some((program, applets)) = host_busybox() {
        store_busybox(&store, &program, &applets)?;
        present.push(BUSYBOX.to_owned());
    }
    Ok(present)
}

fn store_busybox(store: &ImageStore, program: &[u8], applets: &[String]) -> Result<()> {
    let links: Vec<String> = applets.iter().map(|applet| format!("bin/{applet}")).collect();
    let mut nodes = vec![
        ("bin", Folder { mode: 0o755 }),
        ("etc", Folder { mode: 0o755 }),
        ("etc/passwd", File { mode: 0o644, content: PASSWD }),
        ("etc/group", File { mode: 0o644, content: GROUP }),
        ("root", Folder { mode: 0o700 }),
        ("tmp", Folder { mode: 0o1777 }),
        ("bin/busybox", File { mode: 0o755, content: program }),
    ];
    nodes.extend(links.iter().map(|path| (path.as_str(), Link { target: "busybox" })));
    let config = json!({ "Cmd": ["sh"], "Env": ["PATH=/bin"] });
    store.create(&BUSYBOX.parse()?, &nodes, &config)?;
    Ok(())
}

/// The host's busybox and its applets, when it runs without the host's libraries.
fn host_busybox() -> Option<(Vec<u8>, Vec<String>)> {
    let program = fs::read(HOST_BUSYBOX).ok()?;
    if !is_static(&program) {
        return None;
    }
    let output = Command::new(HOST_BUSYBOX).arg("--list").stdin(Stdio::null()).output().ok()?;
    let list = String::from_utf8(output.stdout).ok()?;
    let applets =
        list.lines().map(str::trim).filter(|name| !name.is_empty() && *name != "busybox" && !name.contains('/'));
    Some((program, applets.map(str::to_owned).collect()))
}

/// A dynamically linked program names its loader as a path in its first part.
fn is_static(program: &[u8]) -> bool {
    let head = &program[..program.len().min(4096)];
    let loader = std::ffi::OsStr::new("/lib").as_bytes();
    program.starts_with(b"\x7fELF") && !head.windows(loader.len()).any(|window| window == loader)
}
