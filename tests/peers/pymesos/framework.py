"""A pymesos framework with its own executor: launches one task, sees it run and finish, and prints its states.

    framework.py HOST:PORT
"""
import os
import pathlib
import sys
import threading
import uuid

from addict import Dict
from pymesos import MesosSchedulerDriver, Scheduler, encode_data

EXECUTOR = pathlib.Path(__file__).with_name("executor.py")


class OneTask(Scheduler):
    """Launches one task on the first offer and ends when it has ended."""

    def __init__(self):
        self.launched, self.done, self.states = False, threading.Event(), []

    def registered(self, driver, framework_id, master_info):
        print("registered", framework_id["value"], flush=True)

    def resourceOffers(self, driver, offers):
        for offer in offers:
            if self.launched:
                driver.declineOffer(offer.id)
                continue
            self.launched = True
            task = Dict()
            task.task_id.value = str(uuid.uuid4())
            task.agent_id.value = offer.agent_id.value
            task.name = "greeting"
            task.executor = executor()
            task.data = encode_data(b"hello from a scheduler")
            task.resources = [scalar("cpus", 0.1), scalar("mem", 32)]
            driver.launchTasks(offer.id, [task])

    def frameworkMessage(self, driver, executor_id, agent_id, message):
        print("message", message, flush=True)

    def statusUpdate(self, driver, update):
        print("update", update.state, flush=True)
        self.states.append(update.state)
        if update.state not in ("TASK_STAGING", "TASK_STARTING", "TASK_RUNNING"):
            self.done.set()


def scalar(name, value):
    return Dict(name=name, type="SCALAR", scalar=Dict(value=value))


def executor():
    info = Dict()
    info.executor_id.value = "greeter"
    info.name = "greeter"
    info.command.value = f"exec {sys.executable} {EXECUTOR}"
    info.command.shell = True
    info.command.environment.variables = [{"name": "PYTHONPATH", "value": os.environ.get("PYTHONPATH", "")}]
    info.resources = [scalar("cpus", 0.1), scalar("mem", 32)]
    return info


scheduler = OneTask()
driver = MesosSchedulerDriver(scheduler, Dict(user="root", name="pymesos", checkpoint=False), sys.argv[1], use_addict=True)
thread = threading.Thread(target=driver.run, daemon=True)
thread.start()
finished = scheduler.done.wait(60)
driver.stop()
thread.join(10)
sys.exit(0 if finished and scheduler.states[-1] == "TASK_FINISHED" and "TASK_RUNNING" in scheduler.states else 1)
