"""Roles as processes of their own, for benchmarks that need less than a whole cluster or more than one."""
import contextlib
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time


class Roles:
    """Roles as processes with logs in one folder; all end with the block."""

    def __init__(self):
        self.folder, self.stack = pathlib.Path(tempfile.mkdtemp(prefix="km-bench-")), contextlib.ExitStack()
        self.processes = {}

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
        self.processes[name] = process
        while not (found := re.search(until, log.read_text(errors="replace"))):
            if process.poll() is not None:
                sys.exit(f"{name} ended:\n{log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.005)
        return found, process

    @staticmethod
    def end(process):
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


    def spent(self):
        """Processor time of each role that lives, and of all programs that were run to their end."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive = {name: cpu_seconds(process) for name, process in self.processes.items() if process.poll() is None}
        return {**alive, "load": children.ru_utime + children.ru_stime}

    def api_server(self, km):
        """Starts an API server; answers its kubeconfig."""
        data = self.folder / "apiserver"
        self.start("apiserver", km, "apiserver", f"--data-dir={data}", "--secure-port=0",
                   until=r"listening|serving|ready|address")
        kubeconfig = data / "admin.kubeconfig"
        while not kubeconfig.exists():
            time.sleep(0.05)
        return kubeconfig


def cpu_seconds(process):
    """Processor time of a process so far."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
