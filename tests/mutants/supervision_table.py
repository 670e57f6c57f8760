"""Mutants of supervision: what continues after an internal error, and in which state."""

from typing import Final

from tests.mutants.table import Mutant

CORE: Final = "core/arneb_core/"
TOPOLOGY: Final = "amqp_frontend/arneb_amqp/topology/"
SUPERVISION_TESTS: Final = ("tests/core/api/process/test_supervision.py",)
STARTING_OVER_TESTS: Final = ("tests/core/engine/scheduling/test_starting_over.py",)
TOGETHER_TESTS: Final = ("tests/amqp_frontend/topology/test_together.py",)
TOPOLOGY_TESTS: Final = ("tests/amqp_frontend/topology/test_failures.py",)

SUPERVISION_MUTANTS: Final = (
    Mutant(
        "an error in a background task ends the broker",
        CORE + "api/process/supervision.py",
        "        except Exception as error:\n            if trio.current_time()",
        "        except ZeroDivisionError as error:\n            if trio.current_time()",
        SUPERVISION_TESTS,
    ),
    Mutant(
        "a client that polled a queue once keeps it forever",
        TOPOLOGY + "queues/maintenance.py",
        "    return any(each not in queue.unseen for each in there)\n",
        "    return any(True for each in there)\n",
        ("tests/amqp_frontend/topology/queues/test_limits.py",),
    ),
    Mutant(
        "maintenance ends when the store accepts nothing",
        TOPOLOGY + "queues/maintenance.py",
        "    except CoreError as error:\n",
        "    except TopicBusy as error:\n",
        TOPOLOGY_TESTS,
    ),
    Mutant(
        "what a failed turn had in hand is lost",
        CORE + "subscription/machine.py",
        "        self.returns.returned(lost, count=False)\n",
        "        self.returns.returned([], count=False)\n",
        STARTING_OVER_TESTS,
    ),
    Mutant(
        "a queue whose deletion failed no longer refuses anything",
        TOPOLOGY + "queues/queues.py",
        "            yield unit\n            self._take_out(queue)\n",
        "            self.refusing.pop(queue.name, None)\n            yield unit\n"
        "            self._take_out(queue)\n",
        TOPOLOGY_TESTS,
    ),
    Mutant(
        "an exchange that delays does not recover",
        TOPOLOGY + "exchanges/delayed.py",
        'continues after an error", self.exchange)\n            self.begin()\n',
        'continues after an error", self.exchange)\n',
        TOPOLOGY_TESTS,
    ),
    Mutant(
        "dead letters that could not be passed on are stranded",
        CORE + "subscription/departures/dead_lettering.py",
        "        self._state.outbox.put(TryAgain(is_read=False))\n"
        "        self._read(depart.reason, positions)\n",
        "        self._state.outbox.put(TryAgain(is_read=False))\n",
        STARTING_OVER_TESTS,
    ),
    Mutant(
        "changes of different queues wait for one another",
        TOPOLOGY + "topology.py",
        "        wanted = touched()\n",
        "        wanted = everything()\n",
        TOGETHER_TESTS,
    ),
)
