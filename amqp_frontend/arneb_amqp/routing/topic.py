"""The topic exchange: binding keys are patterns, ``*`` for one word and ``#`` for any number.

The patterns stand in a trie, one node a word. Matching walks all fitting nodes at once, word
by word, so its cost is bounded by words times nodes; trying one path after the other, as
RabbitMQ does, is exponential in the number of ``#``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from arneb_amqp.routing.exchange import Binding, Exchange, Target
from arneb_amqp.routing.exchange_type import AnyArguments, Headers

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"


class _Node:
    """A word of a pattern; the bindings are those of patterns that end here."""

    __slots__ = ("bindings", "children", "repeats")

    def __init__(self, *, repeats: bool = False) -> None:
        self.children: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}
        self.repeats = repeats
        """The word is ``#``: this node fits any further word as well."""


class TopicIndex:
    """Bindings by pattern.

    Invariant: every node but the root has a binding at or below it.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node(repeats=word == ANY_WORDS)
            node = child
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        path = [self._root]
        words = words_of(binding.routing_key)
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].bindings[binding]
        for word, parent, node in zip(reversed(words), path[-2::-1], path[:0:-1], strict=True):
            if node.bindings or node.children:
                break
            del parent.children[word]

    def match(self, routing_keys: Sequence[str], headers: Headers) -> Iterator[Target]:
        for key in routing_keys:
            for node in self._fitting(words_of(key)):
                for binding in node.bindings:
                    yield binding.target

    def _fitting(self, words: Sequence[str]) -> Iterable[_Node]:
        """The nodes at which patterns end that fit all of ``words``."""
        fitting = _with_empty_matches([self._root])
        for word in words:
            following: list[_Node] = []
            for node in fitting:
                if node.repeats:
                    following.append(node)
                for wanted in (word, ONE_WORD):
                    child = node.children.get(wanted)
                    if child is not None:
                        following.append(child)
            fitting = _with_empty_matches(following)
            if not fitting:
                break
        return fitting


def _with_empty_matches(nodes: Iterable[_Node]) -> dict[_Node, None]:
    """``nodes``, each once, and the ``#`` behind them, which fit no word at all."""
    found: dict[_Node, None] = {}
    for node in nodes:
        while node not in found:
            found[node] = None
            node = node.children.get(ANY_WORDS, node)
    return found


def words_of(key: str) -> list[str]:
    """The words of a key. The empty key has none; ``.`` has two, both empty."""
    return key.split(".") if key else []


class Topic(AnyArguments):
    """The type ``topic``."""

    name = "topic"

    def index(self, exchange: Exchange) -> TopicIndex:
        """An empty index."""
        return TopicIndex()
