#!/usr/bin/env python3
"""Makes fields.txt: field numbers of the Kubernetes protobuf encoding for the types that this server decodes.

usage: extract.py K8S_PB_SOURCE SCHEMA_JSON > fields.txt

Field numbers come from the message definitions of the crate k8s-pb, JSON names from the schema table of km-kube.
A message field that the JSON form doesn't have is one whose content lies inline in JSON; it is named "-".
"""

import json
import re
import sys
from pathlib import Path

ROOTS = [
    "Pod", "Node", "Namespace", "Binding", "Event", "ConfigMap", "Secret", "ServiceAccount", "Service", "Endpoints",
    "ReplicationController", "DeleteOptions", "Deployment", "ReplicaSet", "Scale", "Lease", "EndpointSlice",
    "PodDisruptionBudget", "Eviction", "PersistentVolume", "PersistentVolumeClaim", "StorageClass",
]
SCALARS = {"string": "s", "int32": "i", "int64": "i", "bool": "b", "bytes": "y", "double": "d"}
SPECIAL = {"Time", "MicroTime", "Quantity", "IntOrString", "RawExtension", "FieldsV1"}


INLINE = {"LocalObjectReference", "VolumeSource", "PersistentVolumeSource", "ProbeHandler", "EphemeralContainerCommon"}


def resolve(module, path):
    """The full name of a Rust path as seen from a module."""
    parts = path.split("::")
    base = module.split(".")
    while parts[0] == "super":
        parts.pop(0)
        base.pop()
    return ".".join(base + parts)


def structs(text):
    for name, body in re.findall(r"^pub struct (\w+) \{\n(.*?)^\}", text, re.S | re.M):
        fields = re.findall(r"#\[prost\((.*?)\)\]\s*pub (?:r#)?(\w+):\s*(.*?),\s*(?=///|#\[|\Z)", body, re.S)
        yield name, fields


def main(source, schema_path):
    source = Path(source) / "src"
    schema = json.loads(Path(schema_path).read_text())
    types = schema["types"]
    by_lower_name = {name.lower(): definition for name, definition in types.items()}
    everywhere = {key.lower(): key for one in types.values() for key in one.get("properties", {})}
    messages = {}
    for path in source.rglob("mod.rs"):
        module = "io.k8s." + ".".join(path.parent.relative_to(source).parts)
        for name, fields in structs(path.read_text()):
            messages[f"{module}.{name}"] = fields
    waiting = [kind["type"] for kind in schema["kinds"] if kind["kind"] in ROOTS]
    seen = set()
    lines = []
    while waiting:
        name = waiting.pop()
        if name in seen or name not in messages:
            continue
        seen.add(name)
        definition = by_lower_name.get(name.lower())
        properties = {key.lower(): key for key in (definition or {}).get("properties", {})}
        out = []
        for attributes, field, rust_type in messages[name]:
            number = re.search(r'tag = "(\d+)"', attributes).group(1)
            mapped = re.search(r'map = "string, (\w+)', attributes)
            prefix = "%" if mapped else "*" if "repeated" in attributes else ""
            of = mapped.group(1) if mapped else attributes.split(",")[0].split("=")[0].strip()
            code = SCALARS.get(of)
            short = None
            if code is None:
                paths = [path for path in re.findall(r"[\w:]+", rust_type) if not path.startswith("::")]
                reference = resolve(name.rsplit(".", 1)[0], paths[-1])
                short = reference.rsplit(".", 1)[1]
                code = "m:" + reference.removeprefix("io.k8s.")
                if short not in SPECIAL:
                    waiting.append(reference)
            flat = field.replace("_", "").lower()
            own = properties.get(flat)
            if own is None and definition is None:
                own = everywhere.get(flat)
            if own is None and short in INLINE and not prefix:
                own = "-"
            # A field that is in no JSON form belongs to another version of the API.
            if own is not None:
                out.append(f"{number}={own}={prefix}{code}")
        lines.append(name.removeprefix("io.k8s.") + " " + " ".join(out))
    print("\n".join(sorted(lines)))


main(*sys.argv[1:])
