"""Pods to bound through the API server, with agents by the thousand that start no container; beside a scheduler that
binds each pod at once on the same API server and nodes, and one that launches each pod at once on the same agents too."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

from cluster import Api, machine
from roles import Roles

KM = pathlib.Path(sys.argv[1])
KM_BENCH = KM.parent / "km-bench"
AGENTS = int(os.environ.get("AGENTS", 1000))
PODS = int(os.environ.get("PODS", 5000))
TEMPLATE = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-NUMBER", "labels": {"app": "load"}},
    "spec": {"containers": [{"name": "main", "image": "localhost/km/pause:v1",
                             "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}}


def main():
    # Each hollow agent has two connections, and the master as many.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Roles() as roles:
        kubeconfig = roles.api_server(KM)
        found, master = roles.start("master", KM, "mesos-master", "--port=0", f"--work-dir={roles.folder / 'master'}",
                                    "--allocation-interval=100ms", until=r"address=127\.0\.0\.1:(\d+)")
        port = found.group(1)
        roles.start("agents", KM_BENCH, "hollow-agents", f"--master=127.0.0.1:{port}", f"--kubeconfig={kubeconfig}",
                    f"--agents={AGENTS}", until="ready")
        found, scheduler = roles.start("scheduler", KM, "scheduler", f"--kubeconfig={kubeconfig}", "--port=0",
                                       f"--mesos-master=127.0.0.1:{port}", f"--agent-km-path={KM}",
                                       f"--agent-kubeconfig={kubeconfig}", until="subscribed")
        api = Api(kubeconfig, roles.folder)
        while len(api.call("GET", "/api/v1/nodes?limit=100000")["items"]) < AGENTS:
            time.sleep(0.2)
        rate, spent = load(roles, kubeconfig)
        memory = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{scheduler.pid}/status").read_text()).group(1)) / 1024
        roles.end(scheduler)
        wipe(api)
        _, null = roles.start("null-mesos-scheduler", KM_BENCH, "null-mesos-scheduler", f"--kubeconfig={kubeconfig}",
                              f"--master=127.0.0.1:{port}", until="ready")
        by_tasks, spent_by_tasks = load(roles, kubeconfig)
        roles.end(null)
        wipe(api)
        roles.start("null-scheduler", KM_BENCH, "null-scheduler", f"--kubeconfig={kubeconfig}", until="ready")
        by_bindings, spent_by_bindings = load(roles, kubeconfig)
        print(f"machine: {machine()}")
        print(f"{PODS} pods to bound on {AGENTS} hollow agents: {rate:.0f} pods/s (goal 5000: {rate / 5000:.0%}); "
              f"memory of the scheduler {memory:.0f} MB")
        print(f"  processor time, us a pod: {spent}")
        print(f"a scheduler that launches each pod at once, same API server, master and agents: {by_tasks:.0f} pods/s; "
              f"ratio {rate / by_tasks:.0%} (goal 90 %)")
        print(f"  processor time, us a pod: {spent_by_tasks}")
        print(f"a scheduler that binds each pod at once, no Mesos: {by_bindings:.0f} pods/s; ratio {rate / by_bindings:.0%}")
        print(f"  processor time, us a pod: {spent_by_bindings}")


def load(roles, kubeconfig):
    """Creates the pods; answers how many a second were bound, and who spent how much processor time on it."""
    template = roles.folder / "pod.json"
    template.write_text(json.dumps(TEMPLATE))
    command = [KM_BENCH, "load", f"--kubeconfig={kubeconfig}", f"--template={template}", f"--pods={PODS}"]
    before = roles.spent()
    rate = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rate"]
    spent = {name: (now - before[name]) * 1e6 / PODS for name, now in roles.spent().items()}
    return rate, ", ".join(f"{name} {each:.0f}" for name, each in spent.items()) + f"; all {sum(spent.values()):.0f}"


def wipe(api):
    """Deletes all pods; the names are used again."""
    path = "/api/v1/namespaces/default/pods"
    api.call("DELETE", f"{path}?gracePeriodSeconds=0")
    while api.call("GET", f"{path}?limit=1")["items"]:
        time.sleep(0.2)


main()
