"""What the benchmarks share: a cluster of their own, a plain API client, and statistics."""
import base64
import http.client
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import tempfile
import time

PORTS = ["api", "mesos", "agent", "scheduler", "controller-manager"]


class Cluster:
    """`km up` on free ports and a data directory of its own; a context manager."""

    def __init__(self, km, *arguments):
        self.km, self.arguments = km, arguments

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="km-bench-"))
        self.data = self.folder / "km"
        self.seconds = self.start()
        self.state = json.loads((self.data / "cluster.json").read_text())
        return self

    def start(self):
        command = [self.km, "up", *(f"--{name}-port=0" for name in PORTS), *self.arguments,
                   f"--data-dir={self.data}", f"--kubeconfig={self.folder / 'kubeconfig'}"]
        self.log = open(self.folder / "log", "ab")
        began = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        while not (self.data / "ready").exists():
            if self.process.poll() is not None:
                sys.exit(f"km up ended:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.005)
        return time.monotonic() - began

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)

    def __exit__(self, *_):
        self.stop()
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def api(self):
        return Api(self.folder / "kubeconfig", self.folder)

    def processes(self):
        """The cluster's process and all that descend from it or name its data directory."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.data) in line:
                found.append(int(entry.name))
        return found

    def memory_mb(self):
        """Sum of the proportional set sizes, in MB."""
        total = 0
        for pid in self.processes():
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
        return total / 1024


class Api:
    """JSON over TLS with the client certificate of a kubeconfig, by nothing but the standard library."""

    def __init__(self, kubeconfig, folder):
        kubectl = [os.environ.get("KM_TEST_KUBECTL", KUBECTL), f"--kubeconfig={kubeconfig}", "config", "view", "--raw", "-o", "json"]
        config = json.loads(subprocess.run(kubectl, check=True, capture_output=True).stdout)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        files = {}
        for name, data in (("ca", cluster["certificate-authority-data"]), ("cert", user["client-certificate-data"]),
                           ("key", user["client-key-data"])):
            files[name] = folder / f"{name}.pem"
            files[name].write_bytes(base64.b64decode(data))
        self.context = ssl.create_default_context(cafile=files["ca"])
        self.context.load_cert_chain(files["cert"], files["key"])
        self.address = cluster["server"].removeprefix("https://")
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPSConnection(self.address, context=self.context, timeout=120)

    def call(self, method, path, body=None):
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        data = reply.read()
        if reply.status >= 400:
            raise RuntimeError(f"{method} {path}: {reply.status} {data.decode()}")
        return json.loads(data)

    def watch(self, path):
        """Yields (time, type, object) from now on, on a connection of its own."""
        connection = self.connect()
        connection.request("GET", path + ("&" if "?" in path else "?") + "watch=1")
        reply = connection.getresponse()
        while line := reply.readline():
            event = json.loads(line)
            yield time.monotonic(), event["type"], event["object"]


class OperatorStream:
    """The events of a Mesos master's operator API, as (time, event), from its state at the start on."""

    def __init__(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/api/v1", json.dumps({"type": "SUBSCRIBE"}),
                           {"Content-Type": "application/json", "Accept": "application/json"})
        self.reply = connection.getresponse()
        if self.reply.status != 200:
            raise RuntimeError(f"SUBSCRIBE: {self.reply.status} {self.reply.read().decode()}")

    def __iter__(self):
        while length := self.reply.readline():
            yield time.monotonic(), json.loads(self.reply.read(int(length)))


def metric(port, name):
    """A metric without labels, of a role's HTTP port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    return 0.0


KUBECTL = sys.argv[2] if len(sys.argv) > 2 else "kubectl"


def pod(name, labels=None):
    """A pod that needs little and stops at once."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
                "name": "main", "image": "localhost/km/pause:v1", "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "1m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}}]}}


def spread(values):
    values = sorted(values)
    at = lambda share: values[min(len(values) - 1, int(share * len(values)))]
    return {"min": values[0], "p50": at(0.5), "p99": at(0.99), "max": values[-1]}


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores ({model}), load {os.getloadavg()[0]:.1f}"
