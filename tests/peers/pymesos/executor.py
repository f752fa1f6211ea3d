"""The executor of framework.py: runs a task by reporting that it runs, sending a message, and reporting its end."""
import threading
import time

from addict import Dict
from pymesos import Executor, MesosExecutorDriver, decode_data, encode_data


class Greeter(Executor):
    def launchTask(self, driver, task):
        def run():
            for state in ("TASK_RUNNING", "TASK_FINISHED"):
                update = Dict()
                update.task_id.value = task.task_id.value
                update.state = state
                update.timestamp = time.time()
                driver.sendStatusUpdate(update)
                if state == "TASK_RUNNING":
                    driver.sendFrameworkMessage(encode_data(b"got: " + decode_data(task.data)))
        threading.Thread(target=run, daemon=True).start()


MesosExecutorDriver(Greeter(), use_addict=True).run()
