"""Many pods at once to Running, beside tasks of a framework that does nothing else, on the same master."""
import json
import pathlib
import subprocess
import sys
import threading
import time

from cluster import Cluster, machine, pod

PODS, AGENTS = 200, 4
PATH = "/api/v1/namespaces/default/pods"
KM_BENCH = pathlib.Path(sys.argv[1]).parent / "km-bench"


def null_framework(cluster):
    """Tasks a second of the do-nothing framework."""
    command = [KM_BENCH, "null-framework", f"--master=127.0.0.1:{cluster.state['mesos_port']}", f"--tasks={PODS}",
               f"--per-agent={-(-PODS // AGENTS)}"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=400).stdout)["rate"]


with Cluster(sys.argv[1], f"--agents={AGENTS}", "--agent-resources=cpus:8;mem:8192;disk:10240") as cluster:
    limit = null_framework(cluster)
    api = cluster.api()
    version = api.call("GET", PATH)["metadata"]["resourceVersion"]
    running, done = set(), threading.Event()

    def watch():
        for at, _, object in api.watch(f"{PATH}?resourceVersion={version}"):
            if object["status"].get("phase") == "Running":
                running.add(object["metadata"]["name"])
                if len(running) == PODS:
                    done.set()
                    return

    threading.Thread(target=watch, daemon=True).start()
    began = time.monotonic()
    for number in range(PODS):
        api.call("POST", PATH, pod(f"pod-{number}"))
    created = time.monotonic() - began
    if not done.wait(300):
        sys.exit(f"only {len(running)} of {PODS} pods ran")
    took = time.monotonic() - began
    print(f"machine: {machine()}")
    print(f"{PODS} pods at once on {AGENTS} agents: all created after {created:.2f} s, all Running after {took:.2f} s: {PODS / took:.1f} pods/s")
    print(f"the limit, {PODS} tasks of a do-nothing framework on the same master: {limit:.1f} tasks/s; ratio {PODS / took / limit:.0%}")
    print("(each pod is a container with its own network, mounts and cgroup; a do-nothing task is two messages)")
