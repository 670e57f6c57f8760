"""Mutants of copies: who has a copy of a shard, how far its topic may be trimmed, and how copies
are made. Each rule has one.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

PROTOCOL: Final = "cluster/arneb_cluster/protocol/"
TESTS: Final = "tests/cluster/protocol/"
MEMBERS_TESTS: Final = (TESTS + "test_members.py",)
TRIMMING_TESTS: Final = (TESTS + "test_trimming.py",)
READER_TESTS: Final = (TESTS + "test_reader.py",)
MEMBERSHIP_TESTS: Final = ("tests/cluster/test_membership.py",)
COPIES: Final = "cluster/arneb_cluster/copies/"
COPYING_TESTS: Final = (TESTS + "test_copying.py",)
SOURCE_TESTS: Final = ("tests/cluster/test_copy_source.py",)
COPIES_TESTS: Final = ("tests/cluster/test_copies.py",)
FOUNDING_TESTS: Final = ("tests/cluster/test_founding.py",)
REPLACING_TESTS: Final = ("tests/core/store/directory/test_replacement.py",)
SHARD_TESTS: Final = ("tests/cluster/test_shard.py",)

COPIES_MUTANTS: Final = (
    Mutant(
        "a topic is trimmed by the lowest number, though its member reads on from before",
        PROTOCOL + "members.py",
        "        lowest = min(each.report.place for each in self.by_node.values())\n",
        "        lowest = min((each.report.number, each.report.place) for each in"
        " self.by_node.values())[1]\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a topic is trimmed though too few have copies",
        PROTOCOL + "members.py",
        "        if sum(each.is_copy for each in self.by_node.values()) < copies_min:\n",
        "        if not self.by_node:\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a node that takes a copy counts as one that has it",
        PROTOCOL + "members.py",
        "        return not self.report.is_copying and self.report.place != NOWHERE\n",
        "        return self.report.place != NOWHERE\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a missing member is dropped though too few are left",
        PROTOCOL + "members.py",
        "            if _is_gone(member, now_ms, asked) and copies >= asked.copies_min:\n",
        "            if _is_gone(member, now_ms, asked):\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a late report takes a member's number back",
        PROTOCOL + "members.py",
        "            and known.report.place > report.place\n",
        "            and known.report.place < report.place\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a member that comes back with less is assumed to have what it had",
        PROTOCOL + "members.py",
        "            and known.report.run == report.run\n",
        "",
        MEMBERS_TESTS,
    ),
    Mutant(
        "anybody who writes to the topic of reports makes the list grow",
        PROTOCOL + "members.py",
        "        if known is None and len(self.by_node) >= MEMBERS_MAX:\n",
        "        if known is None and len(self.by_node) < 0:\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a leader writes the version that it reads itself",
        PROTOCOL + "members.py",
        "return min((each.report.reads for",
        "return max((each.report.reads for",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a new leader trims by what members had long ago",
        PROTOCOL + "trimming.py",
        "        if {*members.by_node, self._node} - self._heard or members",
        "        if members",
        TRIMMING_TESTS,
    ),
    Mutant(
        "a leader trims what it may have to read again itself",
        PROTOCOL + "trimming.py",
        "        if {*members.by_node, self._node} - self._heard or members",
        "        if {*members.by_node} - self._heard or members",
        TRIMMING_TESTS,
    ),
    Mutant(
        "a topic is trimmed before the next leader would know which members to wait for",
        PROTOCOL + "trimming.py",
        " or members.runs != self._written.runs:\n",
        ":\n",
        TRIMMING_TESTS,
    ),
    Mutant(
        "a topic is trimmed though no record in it says what was stored",
        PROTOCOL + "trimming.py",
        "        if decided is not None and stored > decided.number:\n",
        "        if decided is not None:\n",
        TRIMMING_TESTS,
    ),
    Mutant(
        "the list of members is written only when one comes or goes",
        PROTOCOL + "trimming.py",
        "        return is_due and self.members != self._written\n",
        "        return False\n",
        TRIMMING_TESTS,
    ),
    Mutant(
        "a new leader drops a living member before it could report",
        PROTOCOL + "trimming.py",
        "        if self.is_settled(now_ms):\n            self.members",
        "        if True:\n            self.members",
        TRIMMING_TESTS,
    ),
    Mutant(
        "what Pulsar did not trim is never trimmed",
        PROTOCOL + "trimming.py",
        "        self.trimmed = NOWHERE\n\n    def _is",
        "        pass\n\n    def _is",
        TRIMMING_TESTS,
    ),
    Mutant(
        "a reader ignores records whose TAKE was trimmed",
        PROTOCOL + "reader.py",
        "        if record.epoch > self.epoch and not self._saw_foreign:\n",
        "        if record.epoch < 0:\n",
        READER_TESTS,
    ),
    Mutant(
        "a leader that is never idle does not repeat its history",
        PROTOCOL + "node.py",
        "            if self._beats and (is_idle or now >= self._said_at + HISTORY_S):\n",
        "            if self._beats and is_idle:\n",
        (TESTS + "test_node.py",),
    ),
    Mutant(
        "a member reports what is not on its disk yet",
        "cluster/arneb_cluster/membership.py",
        "        flushed, settings = self._replica.flushed, self._settings\n",
        "        flushed, settings = self._replica.applied, self._settings\n",
        MEMBERSHIP_TESTS,
    ),
    Mutant(
        "nobody holds the log topic",
        "cluster/arneb_cluster/shard.py",
        "        await self._topic.hold()\n",
        "        await trio.lowlevel.checkpoint()\n",
        SHARD_TESTS,
    ),
    Mutant(
        "a chunk is accepted unchecked",
        PROTOCOL + "copying.py",
        "        if sha256(chunk).digest() != body[:HASH_BYTES]:\n",
        "        if len(body) < HASH_BYTES:\n",
        COPYING_TESTS,
    ),
    Mutant(
        "a copy is complete one chunk early",
        PROTOCOL + "copying.py",
        "            if index * CHUNK_BYTES < size:\n",
        "            if (index + 1) * CHUNK_BYTES < size:\n",
        COPYING_TESTS,
    ),
    Mutant(
        "a copy is written wherever its giver says",
        PROTOCOL + "copying.py",
        " or not names.issuperset(files):\n",
        ":\n",
        COPYING_TESTS,
    ),
    Mutant(
        "a copy is given that no leader waits for",
        COPIES + "source.py",
        "        if not self._is_waited_for(wanted):\n            raise",
        "        if not wanted.node:\n            raise",
        SOURCE_TESTS,
    ),
    Mutant(
        "a copy is given to a restarted node that is no longer waited for",
        COPIES + "source.py",
        " and known.report.is_copying and known.report.run == wanted.run\n",
        " and known.report.is_copying\n",
        SOURCE_TESTS,
    ),
    Mutant(
        "a copy begins again after each interruption",
        COPIES + "source.py",
        "        if given is not None and given.made.copy == wanted.copy and given.wanted.run",
        "        if given is not None and given.wanted.node == wanted.copy and given.wanted.run",
        SOURCE_TESTS,
    ),
    Mutant(
        "two nodes are given one copy",
        COPIES + "source.py",
        "        if self._taker is not None and self._taker[0].node != wanted.node:\n",
        "        if self._taker is not None and not wanted.node:\n",
        SOURCE_TESTS,
    ),
    Mutant(
        "a copy fills the giver's disk",
        COPIES + "source.py",
        "        if room < store.size_bytes + ROOM_BYTES_MIN:\n",
        "        if room < 0:\n",
        SOURCE_TESTS,
    ),
    Mutant(
        "a node that lacks what was trimmed reads on",
        COPIES + "need.py",
        "            if verdict is Verdict.LACKING:\n                return True\n",
        "            if verdict is Verdict.LACKING:\n                return False\n",
        COPIES_TESTS,
    ),
    Mutant(
        "a store is replaced by one that is not marked as complete",
        "core/arneb_core/store/directory/replacement.py",
        "    except FileNotFoundError:\n        return False\n",
        "    except FileNotFoundError:\n        names = []\n",
        REPLACING_TESTS,
    ),
    Mutant(
        "a replaced store has its data before the rest is done",
        "core/arneb_core/store/directory/replacement.py",
        "    if (making / DATA_NAME).exists():\n",
        "    if (making / DATA_NAME).exists():\n"
        "        os.replace(making / DATA_NAME, directory / DATA_NAME)\n",
        REPLACING_TESTS,
    ),
    Mutant(
        "a copy that the check finds damaged replaces a directory",
        COPIES + "taker.py",
        "            if findings:\n",
        "            if len(findings) > 1_000:\n",
        COPIES_TESTS,
    ),
    Mutant(
        "a copy continues with a part of another",
        COPIES + "taker.py",
        "            if kept is not None and kept.taking.made == made:\n",
        "            if kept is not None:\n",
        COPIES_TESTS,
    ),
    Mutant(
        "what nodes of another history have is trimmed",
        "cluster/arneb_cluster/membership.py",
        '        if report.history not in ("", own):\n',
        "        if not report.node:\n",
        MEMBERSHIP_TESTS,
    ),
    Mutant(
        "a new history begins with a number that any node may read on from",
        "cluster/arneb_cluster/founding.py",
        "    if not link.number:\n",
        "    if link.number < 0:\n",
        FOUNDING_TESTS,
    ),
    Mutant(
        "a new history waits for the members of the old one",
        "cluster/arneb_cluster/founding.py",
        "        rows = [applied_row(founded), (*MEMBERS_ROW, None)]\n",
        "        rows = [applied_row(founded)]\n",
        FOUNDING_TESTS,
    ),
    Mutant(
        "a new history is the old one",
        "cluster/arneb_cluster/founding.py",
        "    return Applied(str(uuid4()), link,",
        "    return Applied(applied.history or str(uuid4()), link,",
        FOUNDING_TESTS,
    ),
    Mutant(
        "a new history begins without confirmation",
        "broker/arneb/commands/re_found.py",
        "        if not yes:\n",
        "        if False:\n",
        FOUNDING_TESTS,
    ),
    Mutant(
        "a copy is given as fast as the disk allows",
        COPIES + "source.py",
        "            await trio.sleep_until(began + sent / self._bytes_per_s)\n",
        "            await trio.sleep_until(began)\n",
        SOURCE_TESTS,
    ),
    Mutant(
        "a running node that lacks something waits until somebody restarts it",
        "broker/arneb/node/node.py",
        "            if is_again:\n                self._move(NodeState.STARTING)\n",
        "            if False:\n                self._move(NodeState.STARTING)\n",
        COPIES_TESTS,
    ),
)
