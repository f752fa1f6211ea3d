"""A pod's way from creation to Running on an idle cluster, one pod after the other."""
import sys
import time

from cluster import Cluster, machine, pod, spread

PODS = 50
PATH = "/api/v1/namespaces/default/pods"


def one(api, events, name):
    """Seconds from the POST to each phase, as a watcher sees them."""
    began = time.monotonic()
    api.call("POST", PATH, pod(name))
    seen = {"created": time.monotonic() - began}
    for at, _, object in events:
        if object["metadata"]["name"] != name:
            continue
        if object["spec"].get("nodeName"):
            seen.setdefault("bound", at - began)
        statuses = object["status"].get("containerStatuses") or [{}]
        if "running" in statuses[0].get("state", {}):
            seen.setdefault("started", at - began)
        if object["status"].get("phase") == "Running":
            seen["running"] = at - began
            return seen


with Cluster(sys.argv[1]) as cluster:
    api = cluster.api()
    version = api.call("GET", PATH)["metadata"]["resourceVersion"]
    events = api.watch(f"{PATH}?resourceVersion={version}")
    one(api, events, "first")  # starts the executor of one agent
    one(api, events, "second")
    runs = []
    for number in range(PODS):
        runs.append(one(api, events, f"pod-{number}"))
        api.call("DELETE", f"{PATH}/pod-{number}")
    print(f"machine: {machine()}")
    print(f"{PODS} pods one by one, image present, 2 agents; seconds from the POST")
    for phase in ("created", "bound", "started", "running"):
        took = spread([run[phase] for run in runs if phase in run])
        print(f"  {phase:8} p50 {took['p50']:.3f}  p99 {took['p99']:.3f}  min {took['min']:.3f}  max {took['max']:.3f}")
    took = spread([run["running"] for run in runs])
    print(f"beside the goals: p50 {took['p50'] / 0.3:.0%} of 0.3 s, p99 {took['p99'] / 1.5:.0%} of 1.5 s")
