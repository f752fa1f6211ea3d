"""`km up` to ready, and idle memory."""
import sys
import time

from cluster import Cluster, machine, spread

RUNS, IDLE_SECONDS = 5, 15
seconds, memory = [], []
for run in range(RUNS):
    with Cluster(sys.argv[1]) as cluster:
        seconds.append(cluster.seconds)
        if run == RUNS - 1:
            time.sleep(IDLE_SECONDS)  # idle is what is measured here
            memory.append(cluster.memory_mb())
            count = len(cluster.processes())
print(f"machine: {machine()}")
took = spread(seconds)
print(f"km up to all nodes ready, 2 agents, {RUNS} runs: median {took['p50']:.2f} s, {took['min']:.2f} to {took['max']:.2f} s (goal 3 s: {took['p50'] / 3:.0%})")
print(f"idle memory, sum of PSS of {count} processes after {IDLE_SECONDS} s: {memory[0]:.0f} MB (goal 150 MB: {memory[0] / 150:.0%})")
print("published beside it: k3s asks for at least 2 GB for a server and measures about 1.6 GB resident with one node; kind")
print("publishes no figure of its own and runs a kubeadm node (API server, etcd, kubelet, containerd) in a container")
