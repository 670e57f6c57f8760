"""Packed patterns: hard topic patterns, matched all at once as the bits of one number.

The rule: one word of a routing key costs six operations on one number for each block, whatever the
patterns are. A pattern of *m* words has *m* + 1 bits, one for each place in it; a set bit means
that the words so far match up to that place. ``*`` and a word move the bit on; ``#`` moves it on
without consuming a word, and keeps it in place when it consumes one. (Baeza-Yates and Gonnet, "A
New Approach to Text Searching", 1992; Navarro and Raffinot, "Flexible Pattern Matching in Strings",
chapter 4.) Walking a trie instead visits every matching node for every word: with thousands of
nodes that takes seconds where this takes milliseconds.

Walking a trie instead visits every matching node for every word: with thousands of nodes that is
seconds where this is milliseconds.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arneb_amqp.routing.exchange import Binding, Target

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"

BLOCK_BITS: Final = 8192
"""Bits of one number: large enough to hide the interpreter's own cost, small enough that adding or
removing a binding is cheap. A pattern has at most 257 of them."""

SPARSE_BITS: Final = BLOCK_BITS // 4
"""A block with fewer bits in use is emptied into the newest one."""

FREQUENT: Final = 16
"""Occurrences of a word in a block from which its places are kept as a number of their own, which
takes as much room as that many single places."""


class _Block:
    """Patterns side by side in one number.

    Invariants: the highest bit of a pattern is never in ``stars``, ``skips`` or a word's places, so
    no bit moves into the next pattern; bits of removed patterns are in none of them.
    """

    __slots__ = (
        "ends",
        "live_bits",
        "patterns",
        "skips",
        "stars",
        "starts",
        "stays",
        "used_bits",
        "words",
    )

    def __init__(self) -> None:
        self.used_bits = 0
        self.live_bits = 0
        self.starts = 0
        """The first places of the patterns."""
        self.ends = 0
        """The last places: the whole pattern matches."""
        self.stars = 0
        """Places before ``*``."""
        self.skips = 0
        """Places before ``#``."""
        self.stays = 0
        """Places after ``#``."""
        self.words: dict[str, list[int] | int] = {}
        """Places before each word: a list of a few, or a number with the bits of many."""
        self.patterns: dict[int, Pattern] = {}
        """By their last place."""

    def __repr__(self) -> str:
        return f"<_Block {self.live_bits} of {self.used_bits} bits live>"

    def add(self, pattern: "Pattern") -> None:
        first = self.used_bits
        self.used_bits += pattern.bits
        self.live_bits += pattern.bits
        pattern.block, pattern.first = self, first
        self.starts |= 1 << first
        for at, word in enumerate(pattern.words, first):
            if word == ONE_WORD:
                self.stars |= 1 << at
            elif word == ANY_WORDS:
                self.skips |= 1 << at
                self.stays |= 2 << at
            else:
                self._add_word(word, at)
        last = first + len(pattern.words)
        self.ends |= 1 << last
        self.patterns[last] = pattern

    def remove(self, pattern: "Pattern") -> None:
        kept = ~(((1 << pattern.bits) - 1) << pattern.first)
        for name in ("starts", "ends", "stars", "skips", "stays"):
            setattr(self, name, getattr(self, name) & kept)
        for word in set(pattern.words) - {ONE_WORD, ANY_WORDS}:
            self._remove_word(word, pattern, kept)
        self.live_bits -= pattern.bits
        del self.patterns[pattern.first + len(pattern.words)]

    def match(self, words: Sequence[str]) -> "Iterator[Pattern]":
        """Yield the patterns that match all of ``words``."""
        stars, skips, stays = self.stars, self.skips, self.stays
        state = self.starts
        state |= (state & skips) << 1
        for word in words:
            state = (state & (stars | self._places(word))) << 1 | state & stays
            # One step is enough: no two "#" follow each other.
            state |= (state & skips) << 1
            if not state:
                return
        state &= self.ends
        while state:
            last = state.bit_length() - 1
            yield self.patterns[last]
            state ^= 1 << last

    def _places(self, word: str) -> int:
        places = self.words.get(word, 0)
        if isinstance(places, int):
            return places
        bits = 0
        for at in places:
            bits |= 1 << at
        return bits

    def _add_word(self, word: str, at: int) -> None:
        places = self.words.setdefault(word, [])
        if isinstance(places, int):
            self.words[word] = places | 1 << at
            return
        places.append(at)
        if len(places) >= FREQUENT:
            self.words[word] = self._places(word)

    def _remove_word(self, word: str, pattern: "Pattern", kept: int) -> None:
        places = self.words[word]
        rest: list[int] | int
        if isinstance(places, int):
            rest = places & kept
        else:
            behind = pattern.first + pattern.bits
            rest = [at for at in places if not pattern.first <= at < behind]
        if rest:
            self.words[word] = rest
        else:
            del self.words[word]


class Pattern:
    """One pattern and its bindings; its block assigns its place."""

    __slots__ = ("bindings", "block", "first", "words")

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.bindings: dict[Binding, None] = {}
        self.first = 0
        self.block: _Block | None = None

    def __repr__(self) -> str:
        return f"<Pattern {'.'.join(self.words)}, {len(self.bindings)} bindings>"

    @property
    def bits(self) -> int:
        return len(self.words) + 1


class PackedPatterns:
    """Any number of patterns, each normal (see :func:`.topic.normal`).

    Invariant: every pattern has a binding, and every block a pattern.
    """

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, ...], Pattern] = {}
        self._blocks: dict[_Block, None] = {}
        self._newest: _Block | None = None

    def __repr__(self) -> str:
        return f"<PackedPatterns, {len(self._patterns)} in {len(self._blocks)} blocks>"

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, words: tuple[str, ...], binding: Binding) -> None:
        pattern = self._patterns.get(words)
        if pattern is None:
            pattern = self._patterns[words] = Pattern(words)
            self._place(pattern)
        pattern.bindings[binding] = None

    def remove(self, words: tuple[str, ...], binding: Binding) -> None:
        pattern = self._patterns[words]
        del pattern.bindings[binding]
        if pattern.bindings:
            return
        del self._patterns[words]
        block = pattern.block
        assert block is not None, "every pattern has a place"
        block.remove(pattern)
        if block.live_bits < SPARSE_BITS and block is not self._newest:
            self._empty(block)
        elif not block.patterns:
            del self._blocks[block]
            self._newest = None

    def match(self, words: Sequence[str]) -> Iterator[Target | None]:
        """Yield the targets of the patterns that match all of ``words``, and None after each
        block."""
        for block in self._blocks:
            for pattern in block.match(words):
                for binding in pattern.bindings:
                    yield binding.target
            yield None

    def _place(self, pattern: Pattern) -> None:
        block = self._newest
        if block is None or block.used_bits + pattern.bits > BLOCK_BITS:
            full, block = block, _Block()
            self._newest = block
            self._blocks[block] = None
            if full is not None and full.live_bits < SPARSE_BITS:
                self._empty(full)
        block.add(pattern)

    def _empty(self, block: _Block) -> None:
        """Move the remaining patterns of ``block`` into the newest one."""
        del self._blocks[block]
        for pattern in block.patterns.values():
            self._place(pattern)
