"""The topic exchange: binding keys are patterns, ``*`` for one word and ``#`` for any number.

Simple patterns are in a trie, one node a word, and matching walks all matching nodes at once, word
by word; trying one path after another, as RabbitMQ does, is exponential in the number of ``#``.

The rule: a pattern is simple only if, however many of its kind exist, few of them can match the
beginning of one key; all others are packed (:mod:`.packed`). So the cost of a key is bounded by
its words times a small number of nodes, plus one step for each block of hard patterns.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import AnyArguments, Headers
from arneb_amqp.routing.packed import ANY_WORDS, ONE_WORD, PackedPatterns

SIMPLE_WORDS_MAX: Final = 8
"""Words of a simple pattern without ``#``, or with one at its end: at most 2 ** 8 such match the
same words."""

SIMPLE_WORDS_ANYWHERE_MAX: Final = 4
"""Words of a simple pattern with ``#`` anywhere: some 120 of them match any words, each for as long
as there are words."""

VISITS_PER_PAUSE: Final = 64
"""Nodes visited between two pauses while matching."""


class _Node:
    """A word of a pattern; the bindings are those of patterns that end here."""

    __slots__ = ("bindings", "children", "repeats")

    def __init__(self, *, repeats: bool = False) -> None:
        self.children: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}
        self.repeats = repeats
        """The word is ``#``: this node matches any further word as well."""

    def __repr__(self) -> str:
        return f"<_Node {len(self.children)} children, {len(self.bindings)} bindings>"


class TopicIndex:
    """Bindings by pattern.

    Invariant: every node but the root has a binding at or below it.
    """

    def __init__(self) -> None:
        self._root = _Node()
        self._packed = PackedPatterns()

    def __repr__(self) -> str:
        return f"<TopicIndex {self._root!r}, {self._packed!r}>"

    def add(self, binding: Binding) -> None:
        words = normal(words_of(binding.routing_key))
        if not is_simple(words):
            self._packed.add(tuple(words), binding)
            return
        node = self._root
        for word in words:
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(repeats=word == ANY_WORDS)
            node = child
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        words = normal(words_of(binding.routing_key))
        if not is_simple(words):
            self._packed.remove(tuple(words), binding)
            return
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].bindings[binding]
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.bindings or node.children:
                break
            del parent.children[word]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target | None]:
        for key in routing_keys:
            words = words_of(key)
            matched: dict[_Node, None] = {}
            reached = _with_empty_matches([self._root], matched)
            visits = 0
            for word in words:
                if not reached:
                    break
                visits += len(reached)
                if visits >= VISITS_PER_PAUSE:
                    visits = 0
                    yield None
                reached = _following(reached, word, matched)
            for node in chain(reached, matched):
                for binding in node.bindings:
                    yield binding.target
            if self._packed:
                yield from self._packed.match(words)


def _following(nodes: Iterable[_Node], word: str, matched: dict[_Node, None]) -> Collection[_Node]:
    """Return the nodes that match one more word."""
    following: list[_Node] = []
    for node in nodes:
        if node.repeats:
            following.append(node)
        for wanted in (word, ONE_WORD):
            child = node.children.get(wanted)
            if child is not None:
                following.append(child)
    return _with_empty_matches(following, matched)


def _with_empty_matches(nodes: Iterable[_Node], matched: dict[_Node, None]) -> Collection[_Node]:
    """Return ``nodes``, each once, and the ``#`` nodes after them, which match no word, too. Nodes
    that end with their ``#``, and so match whatever follows, are put into ``matched`` instead."""
    found: dict[_Node, None] = {}
    for node in nodes:
        while node not in found:
            if node.repeats and not node.children:
                matched[node] = None
                break
            found[node] = None
            node = node.children.get(ANY_WORDS, node)
    return found


def words_of(key: str) -> list[str]:
    """Return the words of a key. The empty key has none; ``.`` has two, both empty."""
    return key.split(".") if key else []


def normal(words: Sequence[str]) -> list[str]:
    """Return the equivalent pattern in which each run of ``*`` and ``#`` has the ``*`` first, then
    one ``#``."""
    found: list[str] = []
    any_words = False
    for word in words:
        if word == ANY_WORDS:
            any_words = True
            continue
        if any_words and word != ONE_WORD:
            found.append(ANY_WORDS)
            any_words = False
        found.append(word)
    if any_words:
        found.append(ANY_WORDS)
    return found


def is_simple(words: Sequence[str]) -> bool:
    """Whether a normal pattern belongs in the trie."""
    count = len(words)
    if count <= SIMPLE_WORDS_ANYWHERE_MAX:
        return True
    if ANY_WORDS in words[:-1]:
        return False
    return count <= SIMPLE_WORDS_MAX or words.count(ONE_WORD) <= 1


class Topic(AnyArguments):
    """The type ``topic``."""

    name = "topic"

    def index(self, exchange: Exchange) -> TopicIndex:
        """Return an empty index."""
        return TopicIndex()
