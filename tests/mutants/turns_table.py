"""Mistakes that let one client take everybody's turn."""

from typing import Final

from tests.mutants.table import Mutant

ROUTING: Final = "amqp_frontend/arneb_amqp/routing/"
TOPIC_TESTS: Final = ("tests/amqp_frontend/routing/test_topic.py",)
HEADERS_TESTS: Final = ("tests/amqp_frontend/routing/test_headers.py",)
HASH_TESTS: Final = ("tests/amqp_frontend/routing/test_consistent_hash.py",)

TURNS_MUTANTS: Final = (
    Mutant(
        "every topic pattern is walked word by word",
        ROUTING + "topic.py",
        "    count = len(words)\n    if count <= SIMPLE_WORDS_ANYWHERE_MAX:\n",
        "    count = len(words)\n    if count >= 0:\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a packed # fits one word at most",
        ROUTING + "packed.py",
        " << 1 | state & stays\n",
        " << 1\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a hard match never pauses",
        ROUTING + "packed.py",
        "            yield None\n",
        "",
        TOPIC_TESTS,
    ),
    Mutant(
        "blocks of patterns that were removed stay",
        ROUTING + "packed.py",
        "        if block.live_bits < SPARSE_BITS and block is not self._newest:\n",
        "        if block.live_bits < 0:\n",
        TOPIC_TESTS,
    ),
    Mutant(
        "a pattern that wants all stands where everybody stands",
        ROUTING + "headers.py",
        "            least = sizes.index(min(sizes))\n",
        "            least = sizes.index(max(sizes))\n",
        HEADERS_TESTS,
    ),
    Mutant(
        "places that bindings left are never closed up",
        ROUTING + "consistent_hash.py",
        "        if len(self._places) < len(self._bindings) // 2:\n",
        "        if len(self._places) < 0:\n",
        HASH_TESTS,
    ),
)
