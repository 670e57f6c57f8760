"""Topic patterns against a matcher that is too simple to be wrong, and at size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.routing.exchange import Binding, DestinationKind
from arneb_amqp.routing.topic import TopicIndex, words_of

words = st.sampled_from(["a", "b", "", "*", "#"])
keys = st.lists(words, max_size=6).map(".".join)


def fits(pattern: list[str], key: list[str]) -> bool:
    """3.1.3.3: "* matches a single word, and # matches zero or more words"."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(fits(pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and pattern[0] in {"*", key[0]} and fits(pattern[1:], key[1:])


def index_of(patterns: list[str]) -> tuple[TopicIndex, list[Binding]]:
    index = TopicIndex()
    bindings = [Binding("x", f"q{at}", pattern) for at, pattern in enumerate(patterns)]
    for binding in bindings:
        index.add(binding)
    return index, bindings


def found(index: TopicIndex, *keys: str) -> list[str]:
    targets = list(index.match(keys, {}))
    assert all(kind is DestinationKind.QUEUE for kind, _ in targets)
    return sorted(name for _, name in targets)


@given(st.lists(keys, max_size=8), keys)
def test_matches_what_the_definition_matches(patterns: list[str], key: str) -> None:
    index, bindings = index_of(patterns)
    expected = [
        each.destination for each in bindings if fits(words_of(each.routing_key), words_of(key))
    ]
    assert found(index, key) == sorted(expected)


@given(st.lists(keys, max_size=8), st.data())
def test_removing_leaves_no_trace(patterns: list[str], data: st.DataObject) -> None:
    index, bindings = index_of(patterns)
    kept = [binding for binding in bindings if data.draw(st.booleans())]
    for binding in data.draw(st.permutations([each for each in bindings if each not in kept])):
        index.remove(binding)
    fresh = TopicIndex()
    for binding in kept:
        fresh.add(binding)
    assert shape(index) == shape(fresh)


def shape(index: TopicIndex) -> object:
    def walk(node: object) -> object:
        children = {word: walk(child) for word, child in node.children.items()}  # type: ignore[attr-defined]
        return children, set(node.bindings)  # type: ignore[attr-defined]

    return walk(index._root)


@pytest.mark.parametrize(
    ("pattern", "key", "fit"),
    [
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.#", "ab", False),
        ("*.*", ".", True),
        ("#.#", "", True),
        ("#.a.#", "b.a", True),
        ("*.a", "a", False),
        ("lazy.#", "lazy.orange.male.rabbit", True),
        ("*.orange.*", "quick.orange.male.rabbit", False),
    ],
)
def test_patterns_of_the_tutorial_and_the_edges(pattern: str, key: str, fit: bool) -> None:
    index, _ = index_of([pattern])
    assert found(index, key) == (["q0"] if fit else [])


def test_several_keys_are_several_messages() -> None:
    index, _ = index_of(["a", "b", "c"])
    assert found(index, "a", "c") == ["q0", "q2"]


def test_many_hashes_are_no_explosion() -> None:
    """RabbitMQ's walk would try billions of paths."""
    index, _ = index_of([".".join(["#", "a"] * 60)])
    assert found(index, ".".join(["a"] * 120)) == ["q0"]
    assert found(index, ".".join(["a"] * 120 + ["b"])) == []


def test_ten_thousand_patterns_cost_what_fits() -> None:
    index, _ = index_of([f"dept{at % 100}.*.{at}" for at in range(10_000)])
    visited = len(list(index._fitting(words_of("dept7.x.4207"))))
    assert visited == 1
    assert found(index, "dept7.x.4207") == ["q4207"]
