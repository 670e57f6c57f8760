"""Topic patterns, compared with a matcher that is too simple to be wrong, and in large numbers."""

import random
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_amqp.routing.exchange import Binding, DestinationKind
from arneb_amqp.routing.packed import BLOCK_BITS, FREQUENT
from arneb_amqp.routing.topic import TopicIndex, is_simple, normal, words_of

words = st.sampled_from(["a", "b", "", "*", "#"])
keys = st.lists(words, max_size=6).map(".".join)
long_keys = st.lists(words, max_size=14).map(".".join)


def fits(pattern: list[str], key: list[str]) -> bool:
    """3.1.3.3: "* matches a single word, and # matches zero or more words"."""

    @cache
    def fit(behind: int, at: int) -> bool:
        if behind == len(pattern):
            return at == len(key)
        if pattern[behind] == "#":
            return any(fit(behind + 1, each) for each in range(at, len(key) + 1))
        if at == len(key) or pattern[behind] not in {"*", key[at]}:
            return False
        return fit(behind + 1, at + 1)

    return fit(0, 0)


def index_of(patterns: list[str]) -> tuple[TopicIndex, list[Binding]]:
    index = TopicIndex()
    bindings = [Binding("x", f"q{at}", pattern) for at, pattern in enumerate(patterns)]
    for binding in bindings:
        index.add(binding)
    return index, bindings


def found(index: TopicIndex, *keys: str) -> list[str]:
    targets = [target for target in index.match(keys, {}) if target is not None]
    assert all(kind is DestinationKind.QUEUE for kind, _ in targets)
    return sorted(name for _, name in targets)


@given(st.lists(keys, max_size=8) | st.lists(long_keys, max_size=30), keys | long_keys)
def test_matches_the_same_as_the_definition(patterns: list[str], key: str) -> None:
    index, bindings = index_of(patterns)
    expected = [
        each.destination for each in bindings if fits(words_of(each.routing_key), words_of(key))
    ]
    assert found(index, key) == sorted(expected)


@given(long_keys, long_keys)
def test_a_normalised_pattern_matches_the_same_keys(pattern: str, key: str) -> None:
    made = normal(words_of(pattern))
    assert fits(made, words_of(key)) == fits(words_of(pattern), words_of(key))
    assert ["#", "#"] not in [made[at : at + 2] for at in range(len(made))]
    assert normal(made) == made


@given(st.lists(long_keys, max_size=30), st.lists(long_keys, max_size=30), long_keys, st.data())
def test_the_remaining_patterns_match_as_before_a_removal(
    patterns: list[str], later: list[str], key: str, data: st.DataObject
) -> None:
    index, bindings = index_of(patterns)
    kept = [binding for binding in bindings if data.draw(st.booleans())]
    for binding in bindings:
        if binding not in kept:
            index.remove(binding)
    for at, pattern in enumerate(later):
        kept.append(Binding("x", f"later{at}", pattern))
        index.add(kept[-1])
    expected = [
        each.destination for each in kept if fits(words_of(each.routing_key), words_of(key))
    ]
    assert found(index, key) == sorted(expected)
    for binding in kept:
        index.remove(binding)
    assert shape(index) == shape(TopicIndex())
    assert not index._packed._blocks
    assert not index._packed._patterns


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
def test_patterns_of_the_tutorial_and_edge_cases(pattern: str, key: str, fit: bool) -> None:
    index, _ = index_of([pattern])
    assert found(index, key) == (["q0"] if fit else [])


def test_several_keys_are_several_messages() -> None:
    index, _ = index_of(["a", "b", "c"])
    assert found(index, "a", "c") == ["q0", "q2"]


def test_many_hashes_do_not_explode() -> None:
    """RabbitMQ's search would try billions of paths."""
    index, _ = index_of([".".join(["#", "a"] * 60)])
    assert found(index, ".".join(["a"] * 120)) == ["q0"]
    assert found(index, ".".join(["a"] * 120 + ["b"])) == []


def test_ten_thousand_patterns_cost_only_as_much_as_those_that_match() -> None:
    index, _ = index_of([f"dept{at % 100}.*.{at}" for at in range(10_000)])
    assert calls_of(lambda: found(index, "dept7.x.4207")) < 60
    assert found(index, "dept7.x.4207") == ["q4207"]


HOSTILE_KEY = ".".join(["a"] * 127)


def hostile(words: str, count: int) -> list[str]:
    """Patterns of 126 random words, the same ones each time."""
    chance = random.Random(7)
    return [".".join(chance.choice(words) for _ in range(126)) for _ in range(count)]


@pytest.mark.parametrize("words", ["*#", "*#a", "#ab", "*a"])
def test_hard_patterns_cost_one_step_per_block_and_word(words: str) -> None:
    patterns = hostile(words, 300)
    index, _ = index_of(patterns)
    expected = [f"q{at}" for at, each in enumerate(patterns) if fits(words_of(each), ["a"] * 127)]
    assert found(index, HOSTILE_KEY) == sorted(expected)
    blocks = 300 * 127 // BLOCK_BITS + 2
    assert calls_of(lambda: found(index, HOSTILE_KEY)) < 127 * blocks * 5 + 300 * 5


def test_the_trie_cannot_be_made_wide() -> None:
    """Every simple pattern that matches the key, of two kinds, with room for patterns that do
    not."""
    patterns = [".".join(each) for each in product("a*#", repeat=4)]
    patterns += [".".join(each) for each in product("a*x", repeat=8) if each.count("x") < 2]
    assert all(is_simple(normal(words_of(each))) for each in patterns)
    index, _ = index_of(patterns)
    assert calls_of(lambda: found(index, HOSTILE_KEY)) < 127 * 300 * 3


def test_hard_patterns_are_not_searched_in_the_trie() -> None:
    for pattern in ("a.#.a.a.a", "*.#.a.a.a", "*.*.a.a.a.a.a.a.a", "#.a.a.a.*"):
        index, [binding] = index_of([pattern])
        assert not index._root.children
        index.remove(binding)


def test_nearly_empty_blocks_are_closed() -> None:
    """However patterns are added and removed, the rest needs about as many blocks as it fills."""
    index, bindings = index_of([f"{at}.#.{'a.' * 100}b" for at in range(1000)])
    for at, binding in enumerate(bindings):
        if at % 100:
            index.remove(binding)
    assert len(index._packed._blocks) <= 3
    for at, each in enumerate(hostile("*#a", 200)):
        binding = Binding("x", f"new{at}", each)
        index.add(binding)
        if at % 20:
            index.remove(binding)
    assert len(index._packed._blocks) <= 4
    assert "q300" in found(index, "300." + "a." * 100 + "b")


def test_words_that_occur_everywhere_are_found_and_forgotten() -> None:
    count = 3 * FREQUENT
    index, bindings = index_of([f"a.#.a.a.{at}" for at in range(count)])
    assert found(index, "a.a.a.1") == ["q1"]
    for binding in bindings[:-1]:
        index.remove(binding)
    assert found(index, "a.a.a.1") == []
    assert found(index, f"a.a.a.{count - 1}") == [f"q{count - 1}"]


def test_a_long_match_pauses() -> None:
    index, _ = index_of(hostile("*#a", 300))
    pauses = list(index.match([HOSTILE_KEY] * 10, {})).count(None)
    assert pauses >= 10 * (300 * 100 // BLOCK_BITS)
