"""Several nodes over one topic in memory; the caller chooses each step.

The rule: between any two steps of a node anything may happen: time passes, a process is killed, an
answer arrives, a connection is cut. What must hold at every instant is in :meth:`Simulation.check`;
what must hold of the whole is in :meth:`Simulation.check_all`.
"""

from collections import deque
from collections.abc import Callable

from tests.cluster.protocol.directory import EMPTY, MEMBERS, Directory, MemoryDirectory
from tests.cluster.protocol.fake_topic import Connection, FakeTopic, Receipt

from arneb_cluster.protocol.leadership import Act, State
from arneb_cluster.protocol.members import Copies, Report
from arneb_cluster.protocol.node import Apply, Effect, Node
from arneb_cluster.protocol.reader import LogReader, Verdict
from arneb_cluster.protocol.trimming import Trimming, Write
from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_cluster.protocol.window import ReadBack, Reattach, Send
from arneb_core.api.errors import CommitFailed

SHARD = "s"
TAKE_OVER_TURNS = 2
"""What is held goes to disk after so many tenths of a second."""
ENTRY_BYTES_MAX = 620
"""So small that a commit of some 20 bytes is cut into parts."""
COPIES = Copies(copies_min=2, gone_after_s=60.0, report_s=0.3)


class SimulatedNode:
    """One node: the machine, and a shell that takes one step at a time."""

    def __init__(self, simulation: "Simulation", index: int) -> None:
        self.simulation = simulation
        self.index = index
        self.name = f"n{index}"
        self.drift = (index - 1) * 1e-3
        self.directory = simulation.new_directory()
        self.had = NOWHERE
        """The furthest that any of its directories has ever been, on disk."""
        self.has_lost = False
        """It has lost its disk and received no copy since, so nobody has promised it anything."""
        self.source: SimulatedNode | None = None
        """The node from which it has requested a copy."""
        self.pinned = EMPTY
        self.runs = 0
        self.connection: Connection | None = None
        self.paused = False
        self.lags = False
        """Whether its reader lags behind everything else."""
        self.start()

    def __repr__(self) -> str:
        return f"<{self.name} {self.machine!r}>"

    def start(self) -> None:
        """After a kill: nothing that was in memory is left."""
        self.directory = self.directory.again()
        self.has_failed = False
        """Its disk has failed; it works again after a restart."""
        self.machine = Node(SHARD, self.name, self.directory.applied, self.clock)
        self.to_do: deque[Effect] = deque()
        self.events: deque[Callable[[], None]] = deque()
        self.engine_open = False
        self.epoch = 0
        self.producer = ""
        self.runs += 1
        self.source = None
        self.trimming: Trimming | None = None
        self.listened = 0

    @property
    def run(self) -> str:
        return f"{self.name}.{self.runs}"

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
        self.care()

    def care(self) -> None:
        """For the list of members and for the topic, while it leads."""
        window, reports = self.machine.window, self.simulation.reports
        if self.machine.state is not State.LEADING or window is None:
            self.trimming = None
            return
        if self.trimming is None:
            self.trimming = Trimming(self.name, self.directory.members, COPIES, self.clock_ms)
            self.listened = len(reports)
        trimming = self.trimming
        for report in reports[self.listened :]:
            trimming.heard(report, self.clock_ms)
        self.listened = len(reports)
        for asked in trimming.tick(self.clock_ms, window.link.number, window.stored):
            if isinstance(asked, Write):
                body = MEMBERS + asked.members.pack()
                self.machine.commit(body, self.clock_ms, trimming.written, self.clock)
            else:
                self.simulation.trim(asked.place)
        self.gather()

    # Copies

    @property
    def lacks(self) -> bool:
        """It can only continue with a copy."""
        return self.machine.state is State.STOPPED and not self.has_failed

    @property
    def is_well(self) -> bool:
        """It has something, and continues from there."""
        return not self.lacks and self.directory.applied != EMPTY

    def lose_disk(self) -> None:
        """It starts with nothing."""
        self.directory.close()
        self.directory = self.simulation.new_directory()
        self.has_lost = True
        self.simulation.kill(self, 0)

    def ask_for_copy(self, source: "SimulatedNode") -> None:
        """It learns what there is, and reports that it takes a copy from there, so that leaders
        wait for it."""
        if not self.lacks or source is self or not source.gives:
            return
        self.source, self.pinned = source, source.directory.flushed
        self.simulation.report(self)

    @property
    def gives(self) -> bool:
        """It can give a copy."""
        return not (self.lacks or self.has_failed) and self.directory.flushed != EMPTY

    def copy(self) -> None:
        """Take the copy, once the node that gives it knows that leaders wait for this node; then
        start."""
        source = self.source
        if source is None or not source.gives:
            return
        known = source.directory.members.by_node.get(self.name)
        if known is None or (known.report.run, known.report.is_copying) != (self.run, True):
            return
        self.directory.close()
        self.directory = source.directory.copied()
        self.has_lost = False
        self._note_flushed()
        self.simulation.copies += 1
        self.simulation.kill(self, 0)

    def happen(self) -> None:
        """The answer to an earlier request arrives."""
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
        """Notice that the connection is gone, if it is."""
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
        elif act is Act.LOOK:
            # The leader may have lost its connection and still be there.
            self.events.append(lambda: self.machine.gone(self.clock))
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
        """A small commit is only held; a large one goes to disk, with everything that is held."""
        if self.has_failed:
            return
        if self._hold(effect) or self._write(lambda: self.directory.apply(effect.commit)):
            assert self.directory.applied == effect.commit.applied, self
            if effect.ended is not None:
                effect.ended()

    def _hold(self, effect: Apply) -> bool:
        commit, directory = effect.commit, self.directory
        assert commit.applied.link.number > directory.applied.link.number, (self, commit)
        assert commit.applied.place >= directory.applied.place, (self, commit)
        return directory.hold(commit)

    def take_over(self) -> None:
        """What is held goes to disk, if the disk works. In the meantime more is held."""
        if not self.has_failed:
            self._write(lambda: self.directory.take_over(self._hold_more))

    def _hold_more(self) -> None:
        while self.to_do and isinstance(first := self.to_do[0], Apply):
            if not self._hold(first):
                return
            self.to_do.popleft()
            if first.ended is not None:
                first.ended()
            self.gather()

    def _write(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except CommitFailed as error:
            self.has_failed = True
            self.machine.apply_failed(str(error), self.clock)
            self.gather()
            return False
        self._note_flushed()
        return True

    def _note_flushed(self) -> None:
        self.had = max(self.had, self.directory.flushed.place)

    # Clients

    def publish(self, size: int) -> None:
        """A client of this node has something stored."""
        if not self.machine.serves(self.clock):
            return
        body = self.simulation.next_body(size)

        def ended() -> None:
            if self.machine.serves(self.clock):  # checked before each answer
                self.simulation.confirmed.append(body)

        self.machine.commit(body, self.clock_ms, ended, self.clock)
        self.gather()


class Simulation:
    """The nodes, the topic, and what clients were promised."""

    def __init__(
        self, nodes: int = 3, new_directory: Callable[[], Directory] = MemoryDirectory
    ) -> None:
        self.now = 0.0
        self.new_directory = new_directory
        self.topic = FakeTopic()
        self.confirmed: list[bytes] = []
        self.bodies_total = 0
        self._nonces = 0
        self.nodes = [SimulatedNode(self, index) for index in range(nodes)]
        self.reports: list[Report] = []
        self.trims = self.copies = 0

    def next_body(self, size: int) -> bytes:
        self.bodies_total += 1
        return (b"%06d" % self.bodies_total).ljust(6 + size, b".")

    def next_nonce(self) -> int:
        self._nonces += 1
        return self._nonces

    def cut_off(self, node: SimulatedNode, arrived: int) -> None:
        """SIGKILL while it takes over what it held."""
        node.directory = node.directory.cut_off()
        self.kill(node, arrived)

    def kill(self, node: SimulatedNode, arrived: int) -> None:
        """SIGKILL, and a restart."""
        if node.connection is not None and node.connection.is_open:
            self.topic.cut(node.connection, arrived)
        node.connection = None
        node.paused = False
        node.start()

    def report(self, node: SimulatedNode) -> None:
        """A member reports what it has."""
        if node.source is not None:
            applied, is_copying = node.pinned, True
        elif node.lacks and node.directory.flushed == EMPTY:
            return  # it has nothing, and was promised nothing
        else:
            applied, is_copying = node.directory.reported, False
        self.reports.append(
            Report(
                node.name, node.run, applied.link.number, applied.place, is_copying=is_copying
            )
        )  # fmt: skip

    def trim(self, place: Place) -> None:
        """The leader makes the topic forget everything up to there."""
        had = [each.name for each in self.nodes if each.had >= place]
        assert len(had) >= COPIES.copies_min, f"trimmed up to {place}, which only {had} had"
        assert place < self.topic.last, "expected a topic that was written never to be empty"
        self.topic.acknowledge(place)
        self.trims += 1

    def close(self) -> None:
        """Nobody runs any more."""
        for each in self.nodes:
            each.directory.close()

    # What must hold

    def check(self) -> None:
        """At every instant: no two nodes serve, and a reader in a process finds what counts once,
        however much of it is on disk."""
        serving = [each.name for each in self.nodes if each.machine.serves(each.clock)]
        assert len(serving) <= 1, f"expected one leader at most, got {serving}"
        for each in self.nodes:
            if each.machine.serves(each.clock):
                assert each.machine.state is State.LEADING
            found = each.directory.found
            assert len(set(found)) == len(found), f"expected each commit once at {each}"
            assert each.directory.flushed.link.number <= each.directory.applied.link.number

    def counted(self) -> tuple[list[bytes], dict[int, int]]:
        """What counts in the whole topic: the commits, and the checksum for each number."""
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
        """Nothing confirmed is lost, duplicated or out of order, and directories are equal as far
        as they go."""
        bodies, checksums = self.counted()
        assert len(set(bodies)) == len(bodies), "expected each commit once"
        places = {body: index for index, body in enumerate(bodies)}
        for body in self.confirmed:
            assert body in places, f"{body!r} was confirmed, and does not count"
        order = [places[body] for body in self.confirmed]
        assert order == sorted(order), "expected confirms in the order of the log"
        for node in self.nodes:
            directory = node.directory
            found, on_disk = directory.found, directory.on_disk()
            assert found == bodies[: len(found)], node
            assert on_disk == found[: len(on_disk)], node
            for link in (directory.applied.link, directory.flushed.link):
                if link.number:
                    assert checksums[link.number] == link.checksum, node
            missing = [
                place
                for place, _ in self.topic.entries[: self.topic.trimmed]
                if place > directory.flushed.place
            ]
            if not node.has_lost:
                assert not missing, f"{node} lacks {missing[0]}, which was trimmed"
            elif missing and self.topic.behind(NOWHERE)[1:]:
                self._check_notices()

    def _check_notices(self) -> None:
        """A node that begins with nothing learns that something was trimmed."""
        reader = LogReader(SHARD, EMPTY)
        verdicts = [reader.read(*each)[0] for each in self.topic.behind(NOWHERE)]
        assert Verdict.LACKING in verdicts, verdicts

    def heal(self, turns: int = 400) -> SimulatedNode | None:
        """Nothing goes wrong for so many tenths of a second; returns the node that then leads."""
        for node in self.nodes:
            node.paused = node.lags = False
        for node in self.nodes:
            node.directory.mend()
        for turn in range(turns):
            self.now += 0.1
            while self.topic.is_writing:
                self.topic.persist()
            for connection in list(self.topic.connections):
                while connection.arriving:
                    self.topic.arrive(connection)
            while self.topic.is_writing:
                self.topic.persist()
            for node in self.nodes:
                if node.has_failed:
                    self.kill(node, 0)
                if node.lacks:
                    sources = [each for each in self.nodes if each.gives]
                    if node.source is None and sources:
                        node.ask_for_copy(sources[-1])
                    node.copy()
                self.report(node)
            alive = [node for node in self.nodes if not node.lacks]
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
                if turn % TAKE_OVER_TURNS == 0:
                    node.take_over()
            self.check()
        leading = [each for each in self.nodes if each.machine.serves(each.clock)]
        return leading[0] if leading else None
