"""Several nodes over one topic in memory, each step of which somebody else chooses.

The rule: between every two steps of a node anything may come: time, a kill, an answer, a cut. What
must hold at every instant is in :meth:`Simulation.check`, what must hold of the whole in
:meth:`Simulation.check_all`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.cluster.protocol.fake_topic import Connection, FakeTopic, Receipt

from arneb_cluster.protocol.leadership import Act, State
from arneb_cluster.protocol.members import Members, Report
from arneb_cluster.protocol.node import Apply, Effect, Node
from arneb_cluster.protocol.reader import LogReader
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied
from arneb_cluster.protocol.window import ReadBack, Reattach, Send

SHARD = "s"
EMPTY = Applied("", FOUNDATION, NOWHERE, FOUNDATION)
ENTRY_BYTES_MAX = 620
"""So small that a commit of some 20 bytes is cut into parts."""


@dataclass
class Directory:
    """What a node has on disk."""

    applied: Applied = EMPTY
    bodies: list[bytes] = field(default_factory=list)
    number: int = 0
    """Which directory of its node this is."""


class SimulatedNode:
    """One node: the machine, and a shell that takes one step at a time."""

    def __init__(self, simulation: "Simulation", index: int) -> None:
        self.simulation = simulation
        self.index = index
        self.name = f"n{index}"
        self.drift = (index - 1) * 1e-3
        self.directory = Directory()
        self.connection: Connection | None = None
        self.paused = False
        self.start()

    def __repr__(self) -> str:
        return f"<{self.name} {self.machine!r}>"

    def start(self) -> None:
        """After a kill: of what was in memory nothing is left."""
        self.machine = Node(SHARD, self.name, self.directory.applied, self.clock)
        self.to_do: deque[Effect] = deque()
        self.events: deque[Callable[[], None]] = deque()
        self.engine_open = False
        self.epoch = 0
        self.producer = ""

    @property
    def clock(self) -> float:
        return self.simulation.now * (1 + self.drift) + 1_000 * self.index

    @property
    def clock_ms(self) -> int:
        return int(self.clock * 1_000)

    @property
    def topic(self) -> FakeTopic:
        return self.simulation.topic

    def gather(self) -> None:
        made, self.machine.effects = self.machine.effects, []
        self.to_do.extend(made)

    # Steps

    def read(self, count: int) -> None:
        for place, data in self.topic.behind(self.machine.reader.place)[:count]:
            self.machine.read(place, data, self.clock)
        self.gather()

    def tick(self) -> None:
        self.machine.tick(self.clock, self.clock_ms)
        self.gather()

    def happen(self) -> None:
        """What was asked for has come."""
        if self.events:
            self.events.popleft()()
            self.gather()

    def answer(self, twice: bool) -> None:
        """The producer's next answer."""
        connection = self.connection
        if connection is None or not connection.answers:
            return
        found = connection.answers.popleft()
        for _ in range(1 + twice):
            if isinstance(found, Receipt):
                self.machine.receipt(found.sequence, found.place, self.clock)
            else:
                self.machine.refused(found.sequence, found.error, "as told", self.clock)
        self.gather()

    def lose_connection(self, arrived: int) -> None:
        if self.connection is not None:
            if self.connection.is_open:
                self.topic.cut(self.connection, arrived)
            self._lost_connection()

    def notice(self) -> None:
        """The connection is gone, if it is."""
        if self.connection is not None and not self.connection.is_open:
            self._lost_connection()

    def _lost_connection(self) -> None:
        self.connection = None
        self.machine.detached()
        self.gather()
        self.events.append(self._come_back)

    def _come_back(self) -> None:
        """Once, with its own epoch; a refusal is final."""
        if self.connection is not None or not self.producer:
            return
        found = self.topic.come_back(self.producer, self.epoch)
        if found is None:
            self.producer = ""
            self.machine.gave_up("fenced", self.clock)
        else:
            self.connection = found
            self.machine.attached(self.clock)

    def step(self) -> None:
        """Carry out the next effect."""
        if not self.to_do:
            return
        effect = self.to_do.popleft()
        if isinstance(effect, Apply):
            self._apply(effect)
        elif isinstance(effect, Send):
            if self.connection is not None:
                self.connection.send(effect.sequence, effect.data)
        elif isinstance(effect, ReadBack):
            for place, data in self.topic.behind(effect.after):
                self.events.append(
                    lambda at=place, one=data: self.machine.found(at, one, self.clock)
                )  # type: ignore[misc]
            self.events.append(self.machine.found_all)
        elif isinstance(effect, Reattach):
            self.lose_connection(0)
        else:
            self._act(effect)
        self.gather()

    def _act(self, act: Act) -> None:
        if act is Act.PROBE:
            last = self.topic.last
            self.events.append(lambda: self.machine.probed(last, self.clock))
        elif act is Act.FENCE:
            self.connection = self.topic.fence(SHARD)
            self.epoch, self.producer = self.connection.epoch, self.connection.name
            nonce = f"{self.name}:{self.simulation.next_nonce()}"
            epoch = self.epoch
            self.events.append(
                lambda: self.machine.fenced(epoch, ENTRY_BYTES_MAX, nonce, self.clock)
            )
        elif act is Act.OPEN:
            self.engine_open = True
            self.events.append(self.machine.opened)
        elif act is Act.RESIGN:
            self.events.append(lambda: self.machine.write_resignation(self.clock_ms, self.clock))
        elif act in (Act.UNFENCE, Act.CLOSE):
            self._drop_producer()
            if act is Act.CLOSE:
                self.engine_open = False
                self.machine.closed(self.directory.applied, self.clock)
                self.to_do.clear()
                self.events.clear()

    def _drop_producer(self) -> None:
        self.producer = ""
        if self.connection is not None:
            if self.connection.is_open:
                self.topic.cut(self.connection)
            self.connection = None

    def _apply(self, effect: Apply) -> None:
        applied = effect.commit.applied
        directory = self.directory
        assert applied.link.number > directory.applied.link.number, (self, applied)
        assert applied.place >= directory.applied.place, (self, applied)
        directory.applied = applied
        if effect.commit.body:
            directory.bodies.append(effect.commit.body)
        if effect.ended is not None:
            effect.ended()

    # Clients

    def publish(self, size: int) -> None:
        """A client that this node serves has something stored."""
        if not self.machine.serves(self.clock):
            return
        body = self.simulation.next_body(size)

        def ended() -> None:
            if self.machine.serves(self.clock):  # looked at before each answer
                self.simulation.confirmed.append(body)

        self.machine.commit(body, self.clock_ms, ended, self.clock)
        self.gather()


class Simulation:
    """The nodes, the topic, and what was promised to clients."""

    def __init__(self, nodes: int = 3) -> None:
        self.now = 0.0
        self.topic = FakeTopic()
        self.confirmed: list[bytes] = []
        self._bodies = 0
        self._nonces = 0
        self.nodes = [SimulatedNode(self, index) for index in range(nodes)]
        self.members = Members({})

    def next_body(self, size: int) -> bytes:
        self._bodies += 1
        return (b"%06d" % self._bodies).ljust(6 + size, b".")

    def next_nonce(self) -> int:
        self._nonces += 1
        return self._nonces

    def kill(self, node: SimulatedNode, arrived: int) -> None:
        """SIGKILL, and a start."""
        if node.connection is not None and node.connection.is_open:
            self.topic.cut(node.connection, arrived)
        node.connection = None
        node.paused = False
        node.start()

    def report(self, node: SimulatedNode) -> None:
        """A member tells what it has."""
        applied, directory = node.directory.applied, f"{node.name}.{node.directory.number}"
        said = Report(node.name, directory, applied.link.number, applied.place)
        self.members = self.members.heard(said, int(self.now * 1_000))

    def trim(self) -> None:
        """Whoever leads trims, all members being known; but never the last record."""
        place = self.members.trim_place(2)
        all_known = len(self.members.by_node) == len(self.nodes)
        if place is not None and all_known and place < self.topic.last:
            self.topic.trim(place)

    # What must hold

    def check(self) -> None:
        """At every instant: no two serve."""
        serving = [each.name for each in self.nodes if each.machine.serves(each.clock)]
        assert len(serving) <= 1, f"expected one leader at most, got {serving}"
        for each in self.nodes:
            if each.machine.serves(each.clock):
                assert each.machine.state is State.LEADING

    def counted(self) -> tuple[list[bytes], dict[int, int]]:
        """What counts in the whole topic: the commits, and the checksum of each number."""
        reader = LogReader(SHARD, EMPTY)
        bodies: list[bytes] = []
        checksums: dict[int, int] = {}
        for place, data in self.topic.entries:
            _, commit = reader.read(place, data)
            checksums[reader.link.number] = reader.link.checksum
            if commit is not None and commit.body:
                bodies.append(commit.body)
        return bodies, checksums

    def check_all(self) -> None:
        """Nothing confirmed is lost or doubled or out of order, and directories are equal as far as
        they go."""
        bodies, checksums = self.counted()
        assert len(set(bodies)) == len(bodies), "expected each commit once"
        places = {body: index for index, body in enumerate(bodies)}
        for body in self.confirmed:
            assert body in places, f"{body!r} was confirmed, and does not count"
        order = [places[body] for body in self.confirmed]
        assert order == sorted(order), "expected confirms in the order of the log"
        for node in self.nodes:
            directory = node.directory
            assert directory.bodies == bodies[: len(directory.bodies)], node
            link = directory.applied.link
            if link.number:
                assert checksums[link.number] == link.checksum, node
            missing = [
                place
                for place, _ in self.topic.entries[: self.topic.trimmed]
                if place > directory.applied.place
            ]
            assert not missing, f"{node} lacks {missing[0]}, which was trimmed"

    def heal(self, turns: int = 400) -> SimulatedNode | None:
        """Nothing goes wrong any more, for so many tenths of a second; who leads then."""
        for node in self.nodes:
            node.paused = False
        for _ in range(turns):
            self.now += 0.1
            while self.topic.is_writing:
                self.topic.persist()
            for connection in list(self.topic.connections):
                while connection.arriving:
                    self.topic.arrive(connection)
            while self.topic.is_writing:
                self.topic.persist()
            alive = [node for node in self.nodes if node.machine.state is not State.STOPPED]
            for index, node in enumerate(alive):
                node.machine.active(index == 0)
                node.notice()
                node.read(1_000)
                while node.connection is not None and node.connection.answers:
                    node.answer(False)
                while node.events:
                    node.happen()
                node.tick()
                while node.to_do:
                    node.step()
            self.check()
        leading = [each for each in self.nodes if each.machine.serves(each.clock)]
        return leading[0] if leading else None
