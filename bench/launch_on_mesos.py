"""Tasks to RUNNING on Apache Mesos, with executors that do nothing on both sides: what km's scheduler costs beside a
framework that launches all its tasks at once.

Both have all their work at hand when they subscribe: the pods are in the API server by then. Both get their offers from
the same master one after the other, their tasks take the same, their executor is the same program (a task is RUNNING when
it arrives), and time counts from the subscription until the last RUNNING has reached the framework. km's executors bind
no pods here, since a null task has nothing like it.
"""
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

from cluster import machine
from roles import Roles, cpu_seconds

KM, MESOS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[3])
KM_BENCH = KM.parent / "km-bench"
REAL_MESOS = pathlib.Path(__file__).parent.parent / "tests/peers/mesos/real-mesos"
TASKS = int(os.environ.get("PODS", 800))
# A node takes 110 pods.
AGENTS = int(os.environ.get("AGENTS", 8))
LIMIT = 600
TEMPLATE = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-NUMBER"},
    "spec": {"containers": [{"name": "main", "image": "localhost/km/pause:v1",
                             "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}]}}


def mesos(roles):
    """Starts a master and agents in the roles' folder; answers the master's port."""
    folder = roles.folder / "mesos"
    folder.mkdir()
    for part in ("bin", "lib"):
        (folder / part).symlink_to(MESOS / part)
    port = free_ports(AGENTS + 1)
    roles.stack.callback(subprocess.run, [REAL_MESOS, "down", folder], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([REAL_MESOS, "up", folder, f"--agents={AGENTS}", f"--port={port}",
                    "--resources=cpus:64;mem:65536;disk:102400;ports:[31000-32000]",
                    "--agent-flag", "hostname=agent-{n}", "--master-flag", "allocation_interval=100ms"], check=True, stdout=subprocess.DEVNULL)
    return port


def free_ports(count):
    """The first of so many free ports in a row."""
    for first in range(15000, 30000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for number, one in enumerate(sockets):
                one.bind(("127.0.0.1", first + number))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    sys.exit("no free ports")


def null_framework(port):
    command = [KM_BENCH, "null-framework", f"--master=127.0.0.1:{port}", f"--tasks={TASKS}", f"--limit={LIMIT}",
               f"--per-agent={-(-TASKS // AGENTS)}", "--checkpoint"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=LIMIT + 60).stdout)["rate"]


def create_pods(roles, kubeconfig):
    template = roles.folder / "pod.json"
    template.write_text(json.dumps(TEMPLATE))
    subprocess.run([KM_BENCH, "load", f"--kubeconfig={kubeconfig}", f"--template={template}", f"--pods={TASKS}",
                    "--create-only"], check=True, stdout=subprocess.DEVNULL)


def running(port):
    """How often the scheduler was told that a task runs."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    lines = re.findall(r'^mesos_scheduler_status_updates(?:_total)?\{.*state="TASK_RUNNING".*\} (\d+)$', text, re.MULTILINE)
    return sum(map(int, lines))


def km(roles, kubeconfig, port):
    """Tasks a second of km's scheduler, and its processor time a task."""
    executor = roles.folder / "executor"
    executor.write_text(f'#!/bin/sh\nexec "{KM_BENCH.resolve()}" null-executor\n')
    executor.chmod(0o755)
    found, scheduler = roles.start(
        "scheduler", KM, "scheduler", f"--kubeconfig={kubeconfig}", "--port=0", f"--mesos-master=127.0.0.1:{port}",
        f"--agent-km-path={executor}", f"--agent-kubeconfig={kubeconfig}", until=r"started.*address=[\d.]+:(\d+)")
    log = roles.folder / "scheduler.log"
    while "subscribed" not in log.read_text():
        time.sleep(0.002)
    began, spent = time.monotonic(), cpu_seconds(scheduler)
    while running(int(found.group(1))) < TASKS:
        if time.monotonic() > began + LIMIT:
            sys.exit(f"not all tasks ran within {LIMIT} s; the scheduler says:\n{log.read_text()[-4000:]}")
        time.sleep(0.02)
    took = time.monotonic() - began
    spent = cpu_seconds(scheduler) - spent
    roles.end(scheduler)
    return TASKS / took, spent * 1e6 / TASKS


def main():
    with Roles() as roles:
        port = mesos(roles)
        limit = null_framework(port)
        kubeconfig = roles.api_server(KM)
        create_pods(roles, kubeconfig)
        rate, spent = km(roles, kubeconfig, port)
        print(f"machine: {machine()}")
        print(f"{TASKS} pods on {AGENTS} agents of Apache Mesos, executors that do nothing: {rate:.0f} tasks/s to RUNNING, "
              f"scheduler {spent:.0f} us of processor time a task")
        print(f"a framework that does nothing, same master: {limit:.0f} tasks/s; ratio {rate / limit:.0%} (goal 90 %)")


main()
