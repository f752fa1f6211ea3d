//! Tables and properties of `protobuf`.

use super::*;

/// A field: tag and content.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
    out.extend_from_slice(content);
    out
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw)].concat()
}

#[test]
fn what_kubectl_sends_for_a_namespace() {
    // As seen on the wire: metadata with the name and a row of empty fields, empty spec and status.
    let raw = b"\x0a\x14\x0a\x04\x6d\x79\x6e\x73\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00\x12\x00\x1a\x02\x0a\x00";
    let decoded = decode(&body("v1", "Namespace", raw)).unwrap();
    assert_eq!(decoded, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "myns"}, "spec": {}}),);
}

#[test]
fn maps_bytes_and_inline_messages() {
    let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
    let secret = decode(&body("v1", "Secret", &bytes(2, &entry))).unwrap();
    assert_eq!(secret["data"], json!({"k": "dg=="}));

    let empty_dir = bytes(2, b"");
    let volume = [bytes(1, b"scratch"), bytes(2, &empty_dir)].concat();
    let spec = bytes(1, &volume);
    let pod = decode(&body("v1", "Pod", &bytes(2, &spec))).unwrap();
    assert_eq!(pod["spec"], json!({"volumes": [{"name": "scratch", "emptyDir": {}}]}));
}

#[test]
fn zero_replicas_are_kept_and_other_zeros_are_not() {
    let replicas_zero = [0x08, 0x00];
    let deployment = decode(&body("apps/v1", "Deployment", &bytes(2, &replicas_zero))).unwrap();
    assert_eq!(deployment["spec"], json!({"replicas": 0}));
    let port = [vec![0x18, 80], vec![0x28, 0], bytes(4, &[0x08, 0, 0x10, 80, 0x1a, 0])].concat();
    let service = decode(&body("v1", "Service", &bytes(2, &bytes(1, &port)))).unwrap();
    assert_eq!(service["spec"], json!({"ports": [{"port": 80, "targetPort": 80}]}));
}

#[test]
fn volumes_have_their_source_inline_and_claims_may_name_no_class() {
    let host_path = bytes(1, b"/srv");
    let spec = [bytes(2, &bytes(3, &host_path)), bytes(3, b"ReadWriteOnce")].concat();
    let volume = decode(&body("v1", "PersistentVolume", &bytes(2, &spec))).unwrap();
    assert_eq!(volume["spec"], json!({"hostPath": {"path": "/srv"}, "accessModes": ["ReadWriteOnce"]}));
    let claim = decode(&body("v1", "PersistentVolumeClaim", &bytes(2, &bytes(5, b"")))).unwrap();
    assert_eq!(claim["spec"], json!({"storageClassName": ""}));
    let class = decode(&body("storage.k8s.io/v1", "StorageClass", &bytes(2, b"x"))).unwrap();
    assert_eq!(class["provisioner"], "x");
}

#[test]
fn what_is_broken_is_refused() {
    assert!(matches!(decode(b"{}"), Err(ProtobufError::NoEnvelope)));
    assert!(matches!(decode(b"k8s\0\x0a\x7f"), Err(ProtobufError::Malformed)));
    assert!(matches!(decode(&body("x/v1", "Y", b"")), Err(ProtobufError::UnknownKind { .. })));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(raw: Vec<u8>) {
        let _refused_or_not = decode(&[MAGIC, raw.as_slice()].concat());
        if raw.len() < 120 {
            let _refused_or_not = decode(&body("v1", "Pod", &raw));
        }
    }
}
