"""Disturbance: topics that are unloaded, and brokers that are killed, while scenarios are played.

The rule: it is a thread of its own that knows nothing of the scenarios; a seed decides its pauses.
"""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import httpx

NAMESPACE: Final = "public/default"
UNLOAD_PAUSE_S: Final = (0.5, 2.0)
KILL_PAUSE_S: Final = (4.0, 10.0)
"""Between a broker that is there again and the next kill: most scenarios take a second."""

ANSWER_WITHIN_S: Final = 10.0


class Disturbed(Protocol):
    """What a disturbance needs of a broker."""

    @property
    def http_url(self) -> str: ...


class Mortal(Protocol):
    """What is killed: the broker itself, or one of a cluster."""

    def kill(self) -> None: ...

    def start(self) -> object: ...


class Disturbance:
    """What happened so far."""

    def __init__(self, broker: Disturbed, mortals: Sequence[Mortal], seed: int) -> None:
        """Without ``mortals`` nobody is killed."""
        self.unloads = 0
        self.kills = 0
        self.wanted = ""
        """What is unloaded: topics whose names begin so."""
        self.seed = seed
        self._broker = broker
        self._mortals = list(mortals)
        self._dice = random.Random(seed)
        self._ended = threading.Event()

    def __repr__(self) -> str:
        return f"<Disturbance of seed {self.seed}: {self.unloads} unloads, {self.kills} kills>"

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Disturb while the block runs; when it ends, everything runs."""
        workers = [threading.Thread(target=self._unload_again_and_again)]
        if self._mortals:
            workers.append(threading.Thread(target=self._kill_again_and_again))
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._ended.set()
            for worker in workers:
                worker.join()

    def _unload_again_and_again(self) -> None:
        with httpx.Client(
            base_url=self._broker.http_url, timeout=ANSWER_WITHIN_S, follow_redirects=True
        ) as http:
            while not self._ended.wait(self._dice.uniform(*UNLOAD_PAUSE_S)):
                # Nobody may be there at the moment, or the topic be gone meanwhile.
                with suppress(httpx.HTTPError):
                    topics = http.get(f"/admin/v2/persistent/{NAMESPACE}").raise_for_status().json()
                    for topic in (each for each in topics if each.startswith(self.wanted)):
                        path = topic.replace("://", "/")
                        self.unloads += http.put(f"/admin/v2/{path}/unload").is_success

    def _kill_again_and_again(self) -> None:
        while not self._ended.wait(self._dice.uniform(*KILL_PAUSE_S)):
            mortal = self._dice.choice(self._mortals)
            mortal.kill()
            mortal.start()
            self.kills += 1
