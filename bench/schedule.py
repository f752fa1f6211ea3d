"""Pods to bound through the API server, with agents by the thousand that start no container; beside a scheduler that
binds each pod at once on the same API server and nodes, one that launches each pod at once on the same agents too, and,
with a third argument, the stock kube-scheduler of that path."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import urllib.request

from cluster import Api, machine
from roles import Roles

KM = pathlib.Path(sys.argv[1])
KM_BENCH = KM.parent / "km-bench"
KUBE_SCHEDULER = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
AGENTS = int(os.environ.get("AGENTS", 1000))
PODS = int(os.environ.get("PODS", 5000))
# A template of the placement benchmark.
WORKLOAD = os.environ.get("WORKLOAD", "plain")
APPS = 10


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
        mesos = f"http://127.0.0.1:{port}/metrics/snapshot"
        print(f"machine: {machine()}")
        rate, spent = warm_load(roles, kubeconfig, api, mesos)
        print(f"{PODS} pods ({WORKLOAD}) to bound on {AGENTS} hollow agents: {rate:.0f} pods/s (goal 5000: "
              f"{rate / 5000:.0%}); memory of the scheduler {memory_mb(scheduler):.0f} MB")
        print(f"  processor time, us a pod: {spent}")

        def beside(what, name, program, *arguments, until="ready"):
            """Ends the scheduler before, and does the same with another."""
            nonlocal scheduler
            wipe(api, mesos)
            roles.end(scheduler)
            _, scheduler = roles.start(name, program, *arguments, until=until)
            other, spent = warm_load(roles, kubeconfig, api, mesos)
            print(f"{what}: {other:.0f} pods/s; ratio {rate / other:.0%}; memory {memory_mb(scheduler):.0f} MB")
            print(f"  processor time, us a pod: {spent}")

        beside("a scheduler that launches each pod at once, same API server, master and agents (goal 90 %)",
               "null-mesos-scheduler", KM_BENCH, "null-mesos-scheduler", f"--kubeconfig={kubeconfig}",
               f"--master=127.0.0.1:{port}")
        beside("a scheduler that binds each pod at once, no Mesos", "null-scheduler", KM_BENCH, "null-scheduler",
               f"--kubeconfig={kubeconfig}")
        if KUBE_SCHEDULER:
            beside("the stock kube-scheduler without limits on its client, no Mesos", "kube-scheduler", KUBE_SCHEDULER,
                   *stock_flags(roles, kubeconfig), until="all caches synced|Caches populated|Starting")


def stock_flags(roles, kubeconfig):
    """The defaults, but for the client's limits and one plugin that asks for kinds that are not served here."""
    configuration = roles.folder / "kube-scheduler.json"
    configuration.write_text(json.dumps({
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 100000, "burst": 100000},
        "leaderElection": {"leaderElect": False},
        # Its defaults for pods without constraints ask for stateful sets.
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [
            {"name": "PodTopologySpread", "args": {
                "apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "PodTopologySpreadArgs",
                "defaultingType": "List"}}]}]}))
    return [f"--config={configuration}", f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}", "--authentication-skip-lookup", "--port=0", "--secure-port=0",
            # Budgets are served in the version that came after.
            "--feature-gates=PodDisruptionBudget=false", "--v=2", "--logtostderr"]


def warm_load(roles, kubeconfig, api, mesos):
    """A first load opens connections and starts executors, for each scheduler; the second is measured."""
    load(roles, kubeconfig, PODS // 5)
    wipe(api, mesos)
    return load(roles, kubeconfig, PODS)


def load(roles, kubeconfig, pods):
    """Creates the pods; answers how many a second were bound, and who spent how much processor time on it."""
    templates = json.loads((pathlib.Path(__file__).parent / "placement/workloads.json").read_text())["templates"]
    pod = json.loads(json.dumps(templates[WORKLOAD]).replace("$APP", "app-APP"))
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-NUMBER", "labels": {"app": "app-APP"}}}
    for container in pod["spec"]["containers"]:
        container["image"] = "localhost/km/pause:v1"
    template = roles.folder / "pod.json"
    template.write_text(json.dumps(pod))
    command = [KM_BENCH, "load", f"--kubeconfig={kubeconfig}", f"--template={template}", f"--pods={pods}",
               f"--apps={APPS}"]
    before = roles.spent()
    rate = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rate"]
    spent = {name: (now - before[name]) * 1e6 / pods for name, now in roles.spent().items()}
    return rate, ", ".join(f"{name} {each:.0f}" for name, each in spent.items()) + f"; all {sum(spent.values()):.0f}"


def wipe(api, mesos):
    """Deletes all pods, as their names are used again, and waits until their tasks ended, if their scheduler ends them."""
    path = "/api/v1/namespaces/default/pods"
    api.call("DELETE", f"{path}?gracePeriodSeconds=0")
    while api.call("GET", f"{path}?limit=1")["items"]:
        time.sleep(0.2)
    before = None
    while (tasks := live_tasks(mesos)) and tasks != before:
        before = tasks
        time.sleep(1)


def live_tasks(mesos):
    """How many tasks the master knows that didn't end."""
    with urllib.request.urlopen(mesos, timeout=60) as answer:
        metrics = json.load(answer)
    return sum(int(metrics[f"master/tasks_{state}"]) for state in ("staging", "starting", "running", "killing"))


def memory_mb(process):
    """The memory that a process has now."""
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1)) / 1024


main()
