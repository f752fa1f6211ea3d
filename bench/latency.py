"""A pod's way from creation to Running on an idle cluster, one pod after the other."""
import sys
import threading
import time

from cluster import Cluster, OperatorStream, machine, metric, pod, spread

PODS = 50
PATH = "/api/v1/namespaces/default/pods"
QUEUE_WAIT = "mesos_scheduler_queue_wait_time_microseconds_sum"


class Tasks:
    """When the master told of each state of each task: (pod's name, state) -> seconds, by the clock of this process."""

    def __init__(self, port):
        self.seen, self.names, self.change = {}, {}, threading.Condition()
        self.stream = OperatorStream(port)
        threading.Thread(target=self.follow, daemon=True).start()

    def follow(self):
        for at, event in self.stream:
            with self.change:
                if event["type"] == "TASK_ADDED":
                    task = event["task_added"]["task"]
                    self.names[task["task_id"]["value"]] = task["name"].split(".")[0]
                    self.note(at, task["task_id"]["value"], "ADDED")
                elif event["type"] == "TASK_UPDATED":
                    status = event["task_updated"]["status"]
                    self.note(at, status["task_id"]["value"], status["state"])
                self.change.notify_all()

    def note(self, at, task, state):
        self.seen.setdefault((self.names.get(task), state), at)

    def when(self, name, state):
        with self.change:
            if not self.change.wait_for(lambda: (name, state) in self.seen, 30):
                sys.exit(f"the master did not tell of {name} {state}; it told of {sorted(self.seen)}")
            return self.seen[name, state]


def one(api, events, tasks, scheduler, name):
    """Seconds from the POST to each phase, as watchers see them; for `placed`, what the scheduler measured itself."""
    waited = metric(scheduler, QUEUE_WAIT)
    began = time.monotonic()
    api.call("POST", PATH, pod(name))
    seen = {"created": time.monotonic() - began}
    for at, _, object in events:
        if object["metadata"]["name"] != name:
            continue
        if object["spec"].get("nodeName"):
            seen.setdefault("bound", at - began)
        if object["status"].get("phase") == "Running":
            seen["running"] = at - began
            break
    seen["placed"] = (metric(scheduler, QUEUE_WAIT) - waited) / 1e6
    seen["accepted"] = tasks.when(name, "ADDED") - began
    seen["starting"] = tasks.when(name, "TASK_STARTING") - began
    return seen


with Cluster(sys.argv[1]) as cluster:
    api, scheduler = cluster.api(), cluster.state["scheduler_port"]
    tasks = Tasks(cluster.state["mesos_port"])
    version = api.call("GET", PATH)["metadata"]["resourceVersion"]
    events = api.watch(f"{PATH}?resourceVersion={version}")
    one(api, events, tasks, scheduler, "first")  # starts the executor of one agent
    one(api, events, tasks, scheduler, "second")
    runs = []
    for number in range(PODS):
        runs.append(one(api, events, tasks, scheduler, f"pod-{number}"))
        api.call("DELETE", f"{PATH}/pod-{number}")
    print(f"machine: {machine()}")
    print(f"{PODS} pods one by one, image present, 2 agents; seconds from the POST (placed: in the scheduler's queue)")
    for phase in ("created", "placed", "accepted", "bound", "starting", "running"):
        took = spread([run[phase] for run in runs])
        print(f"  {phase:8} p50 {took['p50']:.3f}  p99 {took['p99']:.3f}  min {took['min']:.3f}  max {took['max']:.3f}")
    took = spread([run["running"] for run in runs])
    print(f"beside the goals: p50 {took['p50'] / 0.3:.0%} of 0.3 s, p99 {took['p99'] / 1.5:.0%} of 1.5 s")
