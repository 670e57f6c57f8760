"""Whatever pages are lost: a salvage writes only what was stored, and leaves nothing out."""

import itertools
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.errors import StoreUnusable
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import CursorRecord, pack_holes
from arneb_core.store.format.schema import (
    CHUNK_BITS,
    PLACE_SUFFIX,
    Table,
    cursor_prefix,
    holes_suffix,
)
from arneb_core.store.salvage.salvage import NAMELESS, UNOWNED
from arneb_core.store.salvage.salvaging import salvage
from arneb_core.testing.damaged_kit import (
    LONG,
    PAGE_BYTES,
    Log,
    acknowledged,
    logs_by_name,
    page_classes,
    wipe,
)
from arneb_core.testing.store_kit import StoreModel, commit_small, entry

NAMES = ("a", "b", "c")
CHUNK = (1 << CHUNK_BITS) - 1

ANY_PAGE = "any page"
LOST = (
    ANY_PAGE,
    "meta",
    "root of freelist",
    *(f"leaf of {name}" for name in ("main", "meta", "catalog", "ledgers", "cursors", "entries")),
    "branch of entries",
    "overflow of entries",
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(NAMES), st.integers(1, 5), st.booleans()),
        st.tuples(st.just("tiny"), st.sampled_from(NAMES), st.just(1), st.booleans()),
        st.tuples(st.just("close"), st.sampled_from(NAMES), st.just(0), st.just(False)),
        st.tuples(st.just("move"), st.sampled_from(NAMES), st.integers(0, 30), st.booleans()),
    ),
    min_size=6,
    max_size=30,
)


@dataclass(slots=True)
class Made:
    """A store, and what was in it."""

    path: Path
    model: StoreModel
    holes: dict[str, list[bytes]] = field(default_factory=dict)
    """The keys of their rows."""
    acked: dict[str, set[Position]] = field(default_factory=lambda: {n: set() for n in NAMES})
    ever_acked: dict[str, set[Position]] = field(default_factory=lambda: {n: set() for n in NAMES})

    def do(self, store: Store, step: tuple[str, str, int, bool], number: int) -> None:
        """One commit."""
        kind, name, count, flag = step
        changes = Changes()
        if kind in ("append", "tiny"):
            body = bytes(LONG // count if flag and kind == "append" else 10)
            entries = [entry(b"%s %d %d" % (name.encode(), number, i) + body) for i in range(count)]
            self.model.append(changes, name, entries)
        elif kind == "close":
            self.model.close_ledger(changes, name)
        else:
            self._move(changes, name, count, one_by_one=flag)
        if kind == "tiny" or (kind == "move" and number % 2):
            commit_small(store, changes)
        else:
            store.commit(changes)

    def _move(self, changes: Changes, name: str, count: int, *, one_by_one: bool) -> None:
        """The cursor to some entry, forwards or back, or with holes beyond it."""
        topic = self.model.topics[name]
        places = sorted(topic.entries())
        mark = places[: min(count, len(places))]
        holes = places[len(mark) + 1 :: 2] if one_by_one else []
        mark_delete = mark[-1] if mark else BEFORE_ALL
        prefix = cursor_prefix(topic.id, topic.subscriptions["s"])
        record = CursorRecord(mark_delete, Position(max([mark_delete, *holes]) + 1))
        chunks: dict[int, BitMap] = {}
        for place in holes:
            chunks.setdefault(place >> CHUNK_BITS, BitMap()).add(place & CHUNK)
        changes.puts += [
            *((Table.CURSORS, key, None) for key in self.holes.pop(name, [])),
            (Table.CURSORS, prefix + PLACE_SUFFIX, record.pack()),
            *((Table.CURSORS, prefix + holes_suffix(c), pack_holes(h)) for c, h in chunks.items()),
        ]
        self.holes[name] = [prefix + holes_suffix(chunk) for chunk in chunks]
        self.acked[name] = {*mark, *holes}
        self.ever_acked[name] |= self.acked[name]

    @property
    def logs(self) -> dict[str, Log]:
        return {name: topic.entries() for name, topic in self.model.topics.items()}


def make(path: Path, steps: list[tuple[str, str, int, bool]]) -> Made:
    """A store with three topics that all this was done to."""
    made = Made(path, StoreModel())
    changes = Changes()
    for name in NAMES:
        made.model.create_topic(changes, name)
        made.model.subscribe(changes, name, "s")
    with Store.open(path) as store:
        store.commit(changes)
        for number, step in enumerate(steps):
            made.do(store, step, number)
    return made


@settings(max_examples=150)
@given(
    steps=STEPS,
    losses=st.lists(st.tuples(st.sampled_from(LOST), st.integers(0, 500)), min_size=1, max_size=4),
    filled_with=st.sampled_from([0, 255, 0x5A]),
)
@example(  # b could have the block, too
    steps=[("append", "a", 3, True), ("append", "b", 1, False), ("move", "a", 2, False)],
    losses=[("leaf of entries", 0)],
    filled_with=0,
)
@example(  # of the cursor there is a row that a seek has made wrong
    steps=[
        ("append", "a", 5, False),
        *[("move", "a", 5, False)] * 4,
        ("move", "a", 1, False),
    ],
    losses=[("leaf of cursors", 0), ("root of freelist", 0)],
    filled_with=0,
)
def test_no_subscription_gets_what_is_not_its_own_and_none_is_skipped(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, str, int, bool]],
    losses: list[tuple[str, int]],
    filled_with: int,
) -> None:
    folder = tmp_path_factory.mktemp("lost")
    made = make(folder / "data", steps)
    classes = page_classes(made.path)
    last = (made.path / "data.mdb").stat().st_size // PAGE_BYTES - 1
    classes[ANY_PAGE] = [*range(last + 1)]
    lost = {pages[index % len(pages)] for name, index in losses if (pages := classes.get(name, []))}
    wipe(made.path, lost, filled_with)
    target = folder / "out"
    try:
        salvage(made.path, target)
    except StoreUnusable:
        assert not target.exists()
        assert lost & {0, 1, *classes["leaf of catalog"], *classes["leaf of main"]}
        return
    unexpected = [each for each in check(target) if each.kind is not FindingKind.GAP]
    assert not unexpected
    _assert_messages(made, target, lost, classes)
    _assert_cursors(made, target, lost, classes)
    shutil.rmtree(folder)


def _assert_messages(
    made: Made, target: Path, lost: set[int], classes: dict[str, list[int]]
) -> None:
    logs = made.logs
    by_id = {NAMELESS % topic.id: name for name, topic in made.model.topics.items()}
    everything = {each for log in logs.values() for each in log.values()}
    found = logs_by_name(target)
    for name, log in found.items():
        if name == UNOWNED:
            assert everything >= {*log.values()}
        else:
            assert log.items() <= logs[by_id.get(name, name)].items(), name
    assert found or not everything
    beside = [n for n in classes if n.split()[-1] in ("catalog", "cursors", "ledgers", "freelist")]
    if lost <= {*itertools.chain(*(classes[name] for name in beside))}:
        assert everything == {each for log in found.values() for each in log.values()}


def _assert_cursors(
    made: Made, target: Path, lost: set[int], classes: dict[str, list[int]]
) -> None:
    # With a meta page the last commit may be lost, and then a seek that went back.
    allowed = made.ever_acked if lost & {0, 1} else made.acked
    rows_lost = lost & {
        *classes["meta"], *classes["leaf of cursors"], *classes["leaf of catalog"],
        *classes.get("root of freelist", ()),
    }  # fmt: skip
    ids = {NAMELESS % topic.id: name for name, topic in made.model.topics.items()}
    for name, subscriptions in acknowledged(target).items():
        if name == UNOWNED:
            continue
        known = ids.get(name, name)
        there = {*logs_by_name(target)[name]}
        for gone in subscriptions.values():
            assert gone & there <= allowed[known], "an unacknowledged entry was passed over"
            assert rows_lost or gone & there == made.acked[known] & there, (
                "an acknowledged entry comes again"
            )
