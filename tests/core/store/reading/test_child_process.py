"""Reading in a child: whatever becomes of it, there is an answer with a place."""

import os
import signal
from pathlib import Path

import pytest

from arneb_core.api.errors import StoreDamaged, StoreUnusable
from arneb_core.store.checking.check_in_child import check_in_child
from arneb_core.store.environment import Store
from arneb_core.store.reading.child_process import ReadingFailed, Say, read_in_child, speak

FATES = ("aborted", "killed", "left", "raised", "refused", "well")


def meet(path: Path, at: Say, found: Say) -> None:
    """The child's part: what the name of ``path`` says."""
    at("the first place")
    found("something")
    at("the second place")
    match path.name:
        case "aborted":
            os.write(2, b"mdb.c:1: Assertion failed\n")
            os.abort()
        case "killed":
            os.kill(os.getpid(), signal.SIGBUS)
        case "left":
            os._exit(3)
        case "raised":
            raise KeyError("name")
        case "refused":
            raise StoreUnusable("no store")


SAID = {
    "aborted": "LMDB ended the process with SIGABRT (mdb.c:1: Assertion failed)",
    "killed": "LMDB ended the process with SIGBUS",
    "left": "the process ended with status 3",
    "raised": "KeyError: 'name'",
}


@pytest.mark.parametrize("fate", FATES)
def test_however_a_child_ends_the_place_is_known(fate: str, tmp_path: Path) -> None:
    reading = read_in_child("tests.core.store.reading.test_child_process", tmp_path / fate)
    assert next(reading) == "something"
    if fate == "well":
        assert list(reading) == []
        return
    with pytest.raises(StoreUnusable) as error:
        list(reading)
    if fate == "refused":
        assert not isinstance(error.value, StoreDamaged)
        assert str(error.value) == "no store"
    else:
        assert isinstance(error.value, ReadingFailed)
        assert str(error.value) == f"{SAID[fate]} while reading the second place"


def test_a_sound_store_has_no_findings_apart(store: Store) -> None:
    assert list(check_in_child(store.path)) == []


if __name__ == "__main__":
    speak(meet)
