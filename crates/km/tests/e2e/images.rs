//! Images: loaded from files, pulled from a registry, and missing ones.

use std::{fs, net::TcpStream, path::Path, process::Command};

use km_testkit::{Process, eventually, free_port};

use crate::cluster;

fn pod(name: &str, image: &str, policy: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: main\n    image: \
         {image}\n    imagePullPolicy: {policy}\n    command: [sh, -c, 'echo ran']\n    resources: {{requests: {{cpu: 10m, memory: \
         32Mi}}}}\n"
    )
}

#[test]
fn images_come_from_files_and_registries_and_a_missing_one_says_what_failed() {
    let mut turn = cluster(&["--agents", "1"]);
    let kubectl = turn.cluster.kubectl.clone();
    let folder = tempfile::tempdir().unwrap();

    // A docker archive that another tool could have written.
    let archive = folder.path().join("image.tar");
    docker_archive(&archive, "example.test/shell:1");
    let output = turn.cluster.km(&format!("image load {}", archive.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("example.test/shell:1"));
    let list = turn.cluster.km("image list").output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("example.test/shell:1"));
    kubectl.apply(&pod("loaded", "example.test/shell:1", "Never"));
    eventually("the loaded image ran", || match kubectl.try_run("logs loaded")?.as_str() {
        "ran\n" => Ok(()),
        log => Err(log.to_owned()),
    });

    // A registry on loopback.
    let port = free_port();
    let _registry = registry(folder.path(), port, "");
    push(&archive, port);
    let reference = format!("127.0.0.1:{port}/shell:1");
    kubectl.apply(&pod("pulled", &reference, "Always"));
    eventually("the pulled image ran", || match kubectl.try_run("logs pulled")?.as_str() {
        "ran\n" => Ok(()),
        log => Err(log.to_owned()),
    });
    let events = kubectl.run("get events --field-selector involvedObject.name=pulled");
    assert!(events.contains("Pulled"), "{events}");

    // The same images behind a password, which a secret has.
    let private = free_port();
    let passwords = folder.path().join("htpasswd");
    fs::write(&passwords, PASSWORDS).unwrap();
    let auth = format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", passwords.display());
    let _private = registry(folder.path(), private, &auth);
    let server = format!("127.0.0.1:{private}");
    kubectl.run(&format!(
        "create secret docker-registry pull --docker-server={server} --docker-username=puller --docker-password=secret"
    ));
    let secrets = "spec:\n  imagePullSecrets: [{name: pull}]";
    let manifest = pod("private", &format!("{server}/shell:1"), "Always");
    kubectl.apply(&manifest.replace("spec:", secrets));
    kubectl.apply(&manifest.replace("name: private", "name: locked-out"));
    eventually("the private image ran", || match kubectl.try_run("logs private")?.as_str() {
        "ran\n" => Ok(()),
        log => Err(log.to_owned()),
    });
    eventually("without the secret the registry refuses", || {
        let waiting = "{.status.containerStatuses[0].state.waiting.reason}";
        match kubectl.try_run(&format!("get pod locked-out -o jsonpath={waiting}"))?.as_str() {
            "ImagePullBackOff" => Ok(()),
            other => Err(other.to_owned()),
        }
    });

    // Neither here nor there.
    let missing = format!("127.0.0.1:{port}/nothing:9");
    kubectl.apply(&pod("missing", &missing, "IfNotPresent"));
    eventually("the pod waits for its image", || {
        let waiting = "{.status.containerStatuses[0].state.waiting.reason}";
        match kubectl.try_run(&format!("get pod missing -o jsonpath={waiting}"))?.as_str() {
            "ImagePullBackOff" => Ok(()),
            other => Err(other.to_owned()),
        }
    });
    let described = kubectl.run("describe pod missing");
    assert!(described.contains("nothing:9") && described.contains(&format!("127.0.0.1:{port}")), "{described}");
    kubectl.apply(&pod("never", "example.test/absent:1", "Never"));
    eventually("a pod that may not pull says so", || {
        let waiting = "{.status.containerStatuses[0].state.waiting.reason}";
        match kubectl.try_run(&format!("get pod never -o jsonpath={waiting}"))?.as_str() {
            "ErrImageNeverPull" => Ok(()),
            other => Err(other.to_owned()),
        }
    });
    turn.cluster.stop();
}

/// Packs this machine's static busybox as `docker save` would.
fn docker_archive(path: &Path, reference: &str) {
    let script = r#"
import hashlib, io, json, sys, tarfile
def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, mode, kind, data, link in entries:
            info = tarfile.TarInfo(name)
            info.mode, info.type, info.size, info.linkname = mode, kind, len(data), link
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
busybox = open("/bin/busybox", "rb").read()
layer = tar([("bin", 0o755, tarfile.DIRTYPE, b"", ""), ("bin/busybox", 0o755, tarfile.REGTYPE, busybox, "")]
            + [(f"bin/{applet}", 0o777, tarfile.SYMTYPE, b"", "busybox") for applet in ("sh", "echo", "sleep")])
digest = hashlib.sha256(layer).hexdigest()
config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
                     "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
name = hashlib.sha256(config).hexdigest() + ".json"
manifest = json.dumps([{"Config": name, "RepoTags": [sys.argv[2]], "Layers": [digest + "/layer.tar"]}]).encode()
file = tarfile.REGTYPE
open(sys.argv[1], "wb").write(tar([(name, 0o644, file, config, ""), (digest + "/layer.tar", 0o644, file, layer, ""),
                                   ("manifest.json", 0o644, file, manifest, "")]))
"#;
    let status = Command::new("python3").arg("-c").arg(script).arg(path).arg(reference).status().unwrap();
    assert!(status.success());
}

/// `puller` with the password `secret`, as `htpasswd -B` writes it.
const PASSWORDS: &str = "puller:$2b$04$zhcClECdzf6.YZm0YgZ6lu5upnAQ26pZt3WVrGnruG/zb3Ep7LhNW\n";

/// Debian's registry on a loopback port, with further lines of its configuration.
fn registry(folder: &Path, port: u16, more: &str) -> Process {
    let config = folder.join(format!("registry-{port}.yml"));
    let storage = folder.join("registry");
    fs::create_dir_all(&storage).unwrap();
    let text = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n{more}",
        storage.display()
    );
    fs::write(&config, text).unwrap();
    let process = Process::start(
        Command::new("docker-registry").arg("serve").arg(&config),
        &folder.join(format!("registry-{port}.log")),
    );
    eventually("the registry listens", || TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string()));
    process
}

/// Pushes the archive's image by the registry's own HTTP API.
fn push(archive: &Path, port: u16) {
    let script = r#"
import gzip, hashlib, json, sys, tarfile, urllib.request
base = f"http://127.0.0.1:{sys.argv[2]}/v2/shell"
archive = tarfile.open(sys.argv[1])
read = lambda name: archive.extractfile(name).read()
entry = json.loads(read("manifest.json"))[0]
def blob(data):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    start = urllib.request.urlopen(urllib.request.Request(base + "/blobs/uploads/", method="POST", data=b""))
    place = start.headers["Location"]
    place += ("&" if "?" in place else "?") + "digest=" + digest
    request = urllib.request.Request(place, method="PUT", data=data, headers={"Content-Type": "application/octet-stream"})
    urllib.request.urlopen(request)
    return {"digest": digest, "size": len(data)}
config = {"mediaType": "application/vnd.docker.container.image.v1+json", **blob(read(entry["Config"]))}
layer = gzip.compress(read(entry["Layers"][0]), mtime=0)
layers = [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **blob(layer)}]
kind = "application/vnd.docker.distribution.manifest.v2+json"
manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers}).encode()
urllib.request.urlopen(urllib.request.Request(base + "/manifests/1", method="PUT", data=manifest, headers={"Content-Type": kind}))
"#;
    let status = Command::new("python3").arg("-c").arg(script).arg(archive).arg(port.to_string()).status().unwrap();
    assert!(status.success());
}
