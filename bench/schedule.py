"""Pods to bound through the API server, with agents by the thousand that start no container; beside a scheduler that
binds each pod at once, on the same API server and nodes."""
import contextlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

from cluster import Api, machine, metric

KM = pathlib.Path(sys.argv[1])
KM_BENCH = KM.parent / "km-bench"
AGENTS = int(os.environ.get("AGENTS", 1000))
PODS = int(os.environ.get("PODS", 5000))
TEMPLATE = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-NUMBER", "labels": {"app": "load"}},
    "spec": {"containers": [{"name": "main", "image": "localhost/km/pause:v1",
                             "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}}


class Roles:
    """Roles as processes with logs in one folder; all end with the block."""

    def __init__(self):
        self.folder, self.stack = pathlib.Path(tempfile.mkdtemp(prefix="km-bench-")), contextlib.ExitStack()
        self.ports = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def start(self, name, program, *arguments, until):
        """Starts a role and waits for a line that matches; answers the match and the process."""
        log = self.folder / f"{name}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                       env={**os.environ, "KM_LOG": "info", "NO_COLOR": "1"})
        self.stack.callback(self.end, process)
        while not (found := re.search(until, log.read_text(errors="replace"))):
            if process.poll() is not None:
                sys.exit(f"{name} ended:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)
        return found, process

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def load(self, kubeconfig):
        template = self.folder / "pod.json"
        template.write_text(json.dumps(TEMPLATE))
        command = [KM_BENCH, "load", f"--kubeconfig={kubeconfig}", f"--template={template}", f"--pods={PODS}"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rate"]


def cpu_seconds(process):
    """Processor time of a process so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    # Each hollow agent has two connections, and the master as many.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Roles() as roles:
        data = roles.folder / "apiserver"
        roles.start("apiserver", KM, "apiserver", f"--data-dir={data}", "--secure-port=0", until=r"listening|serving|ready|address")
        kubeconfig = data / "admin.kubeconfig"
        while not kubeconfig.exists():
            time.sleep(0.05)
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
        before = cpu_seconds(scheduler)
        rate = roles.load(kubeconfig)
        spent = cpu_seconds(scheduler) - before
        memory = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{scheduler.pid}/status").read_text()).group(1)) / 1024
        roles.end(scheduler)
        wipe(api)
        roles.start("null-scheduler", KM_BENCH, "null-scheduler", f"--kubeconfig={kubeconfig}", until="ready")
        limit = roles.load(kubeconfig)
        print(f"machine: {machine()}")
        print(f"{PODS} pods to bound on {AGENTS} hollow agents: {rate:.0f} pods/s (goal 5000: {rate / 5000:.0%}); "
              f"scheduler {spent * 1e6 / PODS:.0f} us of processor time a pod, {memory:.0f} MB")
        print(f"a scheduler that binds at once, same API server and nodes: {limit:.0f} pods/s; ratio {rate / limit:.0%} (goal 90 %)")


def wipe(api):
    """Deletes all pods; the names are used again."""
    path = "/api/v1/namespaces/default/pods"
    api.call("DELETE", f"{path}?gracePeriodSeconds=0")
    while api.call("GET", f"{path}?limit=1")["items"]:
        time.sleep(0.2)


main()
