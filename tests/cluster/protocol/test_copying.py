"""What two nodes send while one gives the other a copy."""

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_cluster.protocol import copying
from arneb_cluster.protocol.copying import (
    FRAME_BYTES_MAX,
    HEAD,
    TEXT_BYTES_MAX,
    CopyBroken,
    CopyRefused,
    Frames,
    Kind,
    Made,
    SourceState,
    Taking,
    Wanted,
    chunk_frame,
    frame,
    made_frame,
    need_frame,
    parse_made,
    parse_need,
    parse_source_state,
    parse_wanted,
    refused_frame,
    source_state_frame,
)
from arneb_cluster.protocol.values import Place

NAMES = frozenset({"data.mdb", "journal"})
FILES = st.dictionaries(st.sampled_from(sorted(NAMES)), st.integers(0, 40), min_size=1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK_BYTES", 8)


@given(FILES, st.integers(0, 1 << 30))
def test_a_copy_is_complete_whatever_is_cut_and_damaged(sizes: dict[str, int], seed: int) -> None:
    chance = Random(seed)
    given_ = {name: chance.randbytes(size) for name, size in sizes.items()}
    taken = {name: bytearray(size) for name, size in sizes.items()}
    taking = Taking(Made("c", 7, sizes))
    turns = damaged = 0
    while (asked := taking.need()) is not None:
        turns += 1
        what = chance.randint(0, 5)
        if what == 0:  # cut off, and resumed with what was kept
            taking = Taking.unpack(taking.pack(), NAMES)
            continue
        name, index = parse_need(need_frame(*asked)[HEAD.size :])
        sent = bytearray(chunk_frame(given_[name][index * 8 : index * 8 + 8]))
        if what == 1:
            sent[chance.randrange(HEAD.size, len(sent))] ^= 1 << chance.randint(0, 7)
        frames = Frames()
        body = None
        for at in range(0, len(sent), 3):
            frames.receive(bytes(sent[at : at + 3]))
            found = frames.next()
            if found is not None:
                assert at + 3 >= len(sent)
                _, body = found
        assert body is not None
        if what == 1:
            damaged += 1
            with pytest.raises(CopyBroken):
                taking.take(body)
            continue
        file, place, chunk = taking.take(body)
        taken[file][place : place + len(chunk)] = chunk
        taking.written()
    assert {name: bytes(data) for name, data in taken.items()} == given_
    assert taking.bytes_done == taking.bytes_total == sum(sizes.values())
    with pytest.raises(CopyBroken):
        taking.take(chunk_frame(b"x")[HEAD.size :])


def test_a_chunk_of_another_size_is_refused() -> None:
    taking = Taking(Made("c", 7, {"data.mdb": 12}))
    for wrong in (b"", b"1234567", b"123456789"):
        with pytest.raises(CopyBroken, match="expected 8 bytes of chunk 0"):
            taking.take(chunk_frame(wrong)[HEAD.size :])


def test_every_message_is_decoded_as_it_was() -> None:
    state = SourceState("h", 5, Place(3, 4))
    assert parse_source_state(source_state_frame(state)[HEAD.size :]) == state
    made = Made("c", 5, {"data.mdb": 12})
    assert parse_made(made_frame(made)[HEAD.size :], NAMES) == made
    assert parse_wanted(Wanted("n1", "r", "c").pack()) == Wanted("n1", "r", "c")


def test_a_refusal_gives_the_reason() -> None:
    frames = Frames(refused_frame("it has nothing itself"))
    with pytest.raises(CopyRefused, match="it has nothing itself"):
        frames.next()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (HEAD.pack(0, 99), "got kind 99"),
        (HEAD.pack(TEXT_BYTES_MAX + 1, Kind.MADE), "expected MADE of at most"),
        (HEAD.pack(FRAME_BYTES_MAX + 1, Kind.CHUNK), "expected CHUNK of at most"),
    ],
)
def test_what_is_too_large_or_unknown_is_refused_by_its_header(head: bytes, expected: str) -> None:
    with pytest.raises(CopyBroken, match=expected):
        Frames(head).next()


@pytest.mark.parametrize(
    "document",
    [
        {}, {"copy": 1, "number": 1, "files": {"data.mdb": 1}},
        {"copy": "c", "number": "1", "files": {"data.mdb": 1}},
        {"copy": "c", "number": 1, "files": {}}, {"copy": "c", "number": 1, "files": []},
        {"copy": "c", "number": 1, "files": {"../data.mdb": 1}},
        {"copy": "c", "number": 1, "files": {"data.mdb": -1}},
        {"copy": "c", "number": 1, "files": {"data.mdb": "1"}},
    ],
)  # fmt: skip
def test_a_copy_of_unknown_files_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(CopyBroken):
        parse_made(json.dumps(document).encode(), NAMES)


@given(st.binary(max_size=60))
def test_meaningless_bytes_are_refused(data: bytes) -> None:
    for parse in (parse_source_state, parse_wanted, lambda each: parse_made(each, NAMES)):
        with pytest.raises(CopyBroken):
            parse(data)
    with pytest.raises(CopyBroken):
        Taking.unpack(data, NAMES)


@pytest.mark.parametrize("data", [b"", b"[]", b'["a"]', b'["a",-1]', b"[1,1]", b'["a",true]'])
def test_a_request_for_no_chunk_is_refused(data: bytes) -> None:
    with pytest.raises(CopyBroken):
        parse_need(data)


@pytest.mark.parametrize("done", [[], {"other": 1}, {"data.mdb": -1}, {"data.mdb": "1"}])
def test_an_impossible_progress_is_refused(done: object) -> None:
    kept = json.loads(Taking(Made("c", 1, {"data.mdb": 9})).pack()) | {"done": done}
    with pytest.raises(CopyBroken):
        Taking.unpack(json.dumps(kept).encode(), NAMES)


def test_frames_follow_one_another() -> None:
    frames = Frames(frame(Kind.DONE) + need_frame("data.mdb", 2)[:4])
    assert frames.next() == (Kind.DONE, b"")
    assert frames.next() is None
    frames.receive(need_frame("data.mdb", 2)[4:])
    assert frames.next() == (Kind.NEED, b'["data.mdb", 2]')
