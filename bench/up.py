"""`km up` to ready, and memory: idle without a pod, and with the hello example on both nodes."""
import pathlib
import sys
import time

from cluster import Cluster, machine, spread

RUNS, IDLE_SECONDS = 5, 15
HELLO = pathlib.Path(__file__).parent.parent / "examples/hello.yaml"


def idle(cluster):
    time.sleep(IDLE_SECONDS)  # idle is what is measured here
    return cluster.memory_mb(), len(cluster.processes())


seconds = []
for run in range(RUNS):
    with Cluster(sys.argv[1]) as cluster:
        seconds.append(cluster.seconds)
        if run == RUNS - 1:
            empty = idle(cluster)
with Cluster(sys.argv[1], f"--apply={HELLO}") as cluster:
    hello_seconds, hello = cluster.seconds, idle(cluster)
took = spread(seconds)
print(f"machine: {machine()}")
print(f"km up to all nodes ready, 2 agents, {RUNS} runs: median {took['p50']:.2f} s, {took['min']:.2f} to {took['max']:.2f} s (goal 3 s: {took['p50'] / 3:.0%})")
print(f"km up --apply hello.yaml to 4 pods ready: {hello_seconds:.2f} s")
for what, (megabytes, count) in (("no pod", empty), ("hello on both nodes", hello)):
    print(f"memory after {IDLE_SECONDS} s idle, {what}: {megabytes:.0f} MB, sum of PSS of {count} processes (goal 150 MB: {megabytes / 150:.0%})")
print("published beside it, not the same load: k3s 1.26 sets aside 1596 MB for a server with its packaged components, a monitoring stack and a workload; of kind we found no figure")
