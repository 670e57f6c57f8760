"""What a broker computes for something: user instructions where ``perf`` counts them, and else
nanoseconds of CPU.

The rule: instructions are the same on a machine that others use, so two of them can be compared.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Final

from conformance.brokers.arneb import Arneb

ATTACH_S: Final = 0.3
"""Until ``perf`` counts."""


def cost(broker: Arneb, work: Callable[[], object]) -> float:
    """Of ``work``."""
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
