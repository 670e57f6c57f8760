"""How much work a broker does for something: in user instructions where ``perf`` can count them,
otherwise in nanoseconds of CPU time.

The rule: the number of instructions does not depend on what else the machine does, so two of them
can be compared.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Final

from conformance.brokers.arneb import Arneb

ATTACH_S: Final = 0.3
"""How long ``perf`` takes until it counts."""


def cost(broker: Arneb, work: Callable[[], object]) -> float:
    """The broker's cost of ``work``."""
    perf = shutil.which("perf")
    before = broker.cpu_s()
    counting = None
    if perf is not None:
        command = [perf, "stat", "-x,", "-e", "instructions:u", "-p", str(broker.pid)]
        counting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(ATTACH_S)
    work()
    if counting is not None:
        counting.send_signal(signal.SIGINT)
        counted = counting.communicate()[1].split(",")[0]
        if counted.isdecimal():
            return int(counted)
    return (broker.cpu_s() - before) * 1e9
