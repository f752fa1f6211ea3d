#!/usr/bin/env python3
"""Makes the compact type table v1_37.json from the definitions of the wheel `kubernetes-validate`.

Usage: compact.py _definitions.json > v1_37.json
Keeps the kinds named in SERVED and every type they reach, without descriptions. See README.md.
"""

import json
import sys

SERVED = {
    "/v1": "Pod Node Namespace Binding Event ConfigMap Secret ServiceAccount Service Endpoints "
    "ReplicationController PodTemplate LimitRange ResourceQuota PersistentVolume PersistentVolumeClaim "
    "Status DeleteOptions",
    "apps/v1": "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
    "autoscaling/v1": "Scale",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "Job CronJob",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "events.k8s.io/v1": "Event",
    "networking.k8s.io/v1": "Ingress IngressClass NetworkPolicy",
    "node.k8s.io/v1": "RuntimeClass",
    "policy/v1": "PodDisruptionBudget Eviction",
    "rbac.authorization.k8s.io/v1": "Role RoleBinding ClusterRole ClusterRoleBinding",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "StorageClass CSIDriver CSINode VolumeAttachment",
    "authentication.k8s.io/v1": "TokenRequest TokenReview SelfSubjectReview",
    "authorization.k8s.io/v1": "SubjectAccessReview SelfSubjectAccessReview LocalSubjectAccessReview "
    "SelfSubjectRulesReview",
}

KEPT = (
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
)
# Types whose shape the JSON Schema dialect cannot say the way OpenAPI of Kubernetes says it.
SPECIAL = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True, "format": "int-or-string"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string", "format": "quantity"},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
PREFIX = "#/$defs/"


def one_type(types):
    if isinstance(types, str):
        return types
    return next(t for t in types if t != "null")


def compact(node, seen):
    out = {}
    if "$ref" in node:
        name = node["$ref"].removeprefix(PREFIX)
        seen.add(name)
        out["$ref"] = "#/components/schemas/" + name
    if "type" in node:
        out["type"] = one_type(node["type"])
    for key in KEPT:
        if key in node:
            out[key] = node[key]
    if "items" in node:
        out["items"] = compact(node["items"], seen)
    if "additionalProperties" in node:
        out["additionalProperties"] = compact(node["additionalProperties"], seen)
    if "properties" in node:
        out["properties"] = {name: compact(child, seen) for name, child in node["properties"].items()}
    return out


def main(path):
    with open(path) as file:
        definitions = json.load(file)["$defs"]
    by_kind = {}
    for name, definition in definitions.items():
        for gvk in definition.get("x-kubernetes-group-version-kind", []):
            by_kind.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    kinds, waiting = [], []
    for group_version, names in SERVED.items():
        group, version = group_version.lstrip("/").rsplit("/", 1) if "/" in group_version.lstrip("/") else ("", "v1")
        for kind in names.split():
            name = by_kind[(group, version, kind)]
            kinds.append({"group": group, "version": version, "kind": kind, "type": name})
            waiting.append(name)
    types = {}
    while waiting:
        name = waiting.pop()
        if name in types:
            continue
        seen = set()
        types[name] = SPECIAL.get(name) or compact(definitions[name], seen)
        waiting.extend(seen)
    json.dump({"kinds": kinds, "types": dict(sorted(types.items()))}, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
