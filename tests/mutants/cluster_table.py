"""The mutant list, continued: mistakes of a replicated log. Each rule of its protocol has one.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

PROTOCOL: Final = "cluster/arneb_cluster/protocol/"
TESTS: Final = "tests/cluster/protocol/"
WINDOW_TESTS: Final = (TESTS + "test_window.py",)
READER_TESTS: Final = (TESTS + "test_reader.py",)
LEADERSHIP_TESTS: Final = (TESTS + "test_leadership.py",)
REPLICA_TESTS: Final = ("tests/cluster/test_replica.py",)
LOG_TESTS: Final = ("tests/cluster/test_commit_log.py",)
MEMBERS_TESTS: Final = (TESTS + "test_members.py",)
CHECKS_TESTS: Final = (TESTS + "test_checks.py",)
ENTRIES_TESTS: Final = (TESTS + "test_entries.py",)

MEMBER_TESTS: Final = ("tests/cluster/test_member.py",)
CLUSTERED: Final = "broker/arneb/clustered/"

CLUSTER_MUTANTS: Final = (
    Mutant(
        "a node that starts does not know who leads until the next TAKE",
        PROTOCOL + "reader.py",
        "    if not applied.leader:\n        return None\n",
        "    return None\n",
        READER_TESTS,
    ),
    Mutant(
        "a service that may lose something is taken",
        CLUSTERED + "pulsar_service.py",
        '    if found := "; ".join(str(each) for each in unmet(policies, broker)):\n',
        '    if found := "; ".join(str(each) for each in unmet({}, {})):\n',
        MEMBER_TESTS,
    ),
    Mutant(
        "a service that is starting is taken for one that refuses",
        CLUSTERED + "pulsar_service.py",
        "            if error.status < SERVER_ERROR:\n",
        "            if error.status <= SERVER_ERROR:\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "a directory with messages of its own begins a shard",
        CLUSTERED + "pulsar_service.py",
        "    if applied is None and has_topics:\n",
        "    if applied is None and not has_topics and False:\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "a directory is not compared with the topic",
        CLUSTERED + "pulsar_service.py",
        "    if unfit := judge(applied, history, last, holds_something=has_topics):\n",
        "    if unfit := judge(None, history, last, holds_something=has_topics):\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "a leader that stops has the others wait for silence",
        CLUSTERED + "member.py",
        '                await self.shard.resign("its node stops")\n',
        "                await trio.lowlevel.checkpoint()\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "users that change are not followed",
        "cluster/arneb_cluster/replica.py",
        "            self.metadata_changes += 1\n",
        "            self.metadata_changes = 1\n",
        MEMBER_TESTS,
    ),
    Mutant(
        "a broker that is alone has the cluster in its process",
        "broker/arneb/node.py",
        "from arneb.observed import node_name\n",
        "import arneb_cluster\nfrom arneb.observed import node_name\n",
        ("tests/cluster/test_alone.py",),
    ),
    Mutant(
        "a duplicate's receipt is taken for storage",
        PROTOCOL + "window.py",
        "            item.becomes(ItemState.DOUBTED)\n            self._read_back()\n",
        "            self._place(item, self.last_place._replace(entry=self.last_place.entry + 1))\n"
        "            self._finish(now)\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "what has no receipt is not sent again",
        PROTOCOL + "window.py",
        "            self._attached = True\n            self._resend(now)\n",
        "            self._attached = True\n            self._send_held(now)\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "a later record is told of before the one before it",
        PROTOCOL + "window.py",
        "        while self._items and self._items[0].state is ItemState.PLACED:\n",
        "        while self._items and any(i.state is ItemState.PLACED for i in self._items):\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "a refused record is sent again as if nothing were behind it",
        PROTOCOL + "window.py",
        "        if error is SendError.UNKNOWN_DUPLICATE:\n",
        "        if error is not SendError.FENCED:\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "a record that stands before its predecessor is told of all the same",
        PROTOCOL + "window.py",
        "            if item.place <= self.last_place:\n",
        "            if item.place == self.last_place:\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "a false duplicate of what was sent once is looked for like any other",
        PROTOCOL + "window.py",
        "        elif item.state is ItemState.SENT:\n            self._lose(\n",
        "        elif item.state is ItemState.HELD:\n            self._lose(\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "what is not found when it is read back is told of as stored",
        PROTOCOL + "window.py",
        "looked_for or () if each.state is ItemState.DOUBTED]",
        "looked_for or () if each.state is ItemState.HELD]",
        WINDOW_TESTS,
    ),
    Mutant(
        "a leader reads on from the last copy of its record, though the first one counts",
        PROTOCOL + "window.py",
        "            if item.ends_commit and not item.was_resent:\n",
        "            if item.ends_commit:\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "bytes in flight have no bound",
        PROTOCOL + "window.py",
        "if self._in_flight_bytes and self._in_flight_bytes + size > IN_FLIGHT_BYTES_MAX:",
        "if self._in_flight_bytes < 0:",
        WINDOW_TESTS,
    ),
    Mutant(
        "a record counts whatever stands before it",
        PROTOCOL + "reader.py",
        "        if record.number > self.link.number + 1:\n",
        "        if record.number > self.link.number + 2:\n",
        READER_TESTS,
    ),
    Mutant(
        "a record counts whatever checksum it follows",
        PROTOCOL + "reader.py",
        "COUNTED if record.before == self.link.checksum else Verdict.UNCHAINED\n",
        "COUNTED\n",
        READER_TESTS,
    ),
    Mutant(
        "a record that stands there twice counts twice",
        PROTOCOL + "reader.py",
        "        if record.number <= self.link.number:\n            return Verdict.DOUBLE\n",
        "        if record.number < self.link.number:\n            return Verdict.DOUBLE\n",
        READER_TESTS,
    ),
    Mutant(
        "what a fenced leader wrote late counts",
        PROTOCOL + "reader.py",
        "        if (record.epoch, record.take_place) != (self.epoch, self.take_place):\n",
        "        if record.epoch > self.epoch:\n",
        READER_TESTS,
    ),
    Mutant(
        "any TAKE counts that stands behind the last",
        PROTOCOL + "reader.py",
        "        if take.epoch <= self.epoch:\n",
        "        if take.epoch < 0:\n",
        READER_TESTS,
    ),
    Mutant(
        "a TAKE of another history counts",
        PROTOCOL + "reader.py",
        "        if take.shard != self._shard or take.history != (self.history or take.history):\n",
        "        if take.shard != self._shard:\n",
        READER_TESTS,
    ),
    Mutant(
        "a TAKE leaves the parts of its predecessor's commit open",
        PROTOCOL + "reader.py",
        "        self._parts, self._parts_bytes = [], 0  # what was not whole never will be\n",
        "",
        READER_TESTS,
    ),
    Mutant(
        "what the directory has is applied again",
        PROTOCOL + "reader.py",
        "        if self.link.number <= self._applied:\n            return None\n",
        "",
        READER_TESTS,
    ),
    Mutant(
        "a follower that lacks what its leader has stored goes on",
        PROTOCOL + "reader.py",
        "        if record.stored > self.link.number:\n            return Verdict.LACKING\n",
        "",
        READER_TESTS,
    ),
    Mutant(
        "a candidate fences as soon as it is active",
        PROTOCOL + "lease.py",
        "        return self.resigned or now >= self.since + SILENCE_S\n",
        "        return True\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "who is not active tries all the same",
        PROTOCOL + "leadership.py",
        "        if self._may_try and self.silence.may_try(now):\n",
        "        if self.silence.may_try(now):\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a candidate fences before it has read the topic to its end",
        PROTOCOL + "leadership.py",
        "        if last > read_up_to or not self.silence.may_try(now):\n",
        "        if not self.silence.may_try(now):\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a new leader does not wait out the lease of the old one",
        PROTOCOL + "lease.py",
        "        return -math.inf if self.resigned else self.since + LEASE_S + MARGIN_S\n",
        "        return -math.inf\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a leader serves though its lease is over",
        PROTOCOL + "leadership.py",
        "        return self.state is State.LEADING and now >= self.serve_from"
        " and self.lease.holds(now)\n",
        "        return self.state is State.LEADING and now >= self.serve_from\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a lease counts from when the receipt came",
        PROTOCOL + "window.py",
        "                item.stored(item.link, *self._base, item.sent_at)\n",
        "                item.stored(item.link, *self._base, now)\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "a lease counts from when a record was sent last",
        PROTOCOL + "window.py",
        "            item.was_resent = True\n",
        "            item.was_resent, item.sent_at = True, now\n",
        WINDOW_TESTS,
    ),
    Mutant(
        "who resigns says so before it has stopped serving",
        PROTOCOL + "leadership.py",
        "            self._becomes(State.RESIGNING)\n",
        "            self.acts.append(Act.CLOSE)\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a leader that cannot apply goes on",
        PROTOCOL + "leadership.py",
        "        if self.state in (State.OPENING, State.LEADING):\n            self.resign(why)\n",
        "        if self.state in (State.OPENING, State.LEADING):\n            self.why = why\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a follower that cannot apply follows on",
        PROTOCOL + "leadership.py",
        "            self._becomes(State.STOPPED)\n        self.why = why\n",
        "            self._becomes(State.FOLLOWING)\n        self.why = why\n",
        LEADERSHIP_TESTS,
    ),
    Mutant(
        "a topic is trimmed by numbers, though a member reads on from before its own",
        PROTOCOL + "members.py",
        "        lowest = min(each.report.place for each in self.by_node.values())\n",
        "        lowest = min((each.report.number, each.report.place) for each in"
        " self.by_node.values())[1]\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a topic is trimmed though too few have copies",
        PROTOCOL + "members.py",
        "        if len(self.by_node) < copies_min:\n",
        "        if not self.by_node:\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a member that is gone is dropped though too few are left",
        PROTOCOL + "members.py",
        "            if is_gone and len(left) > copies_min:\n",
        "            if is_gone:\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a report that comes late takes a member's number back",
        PROTOCOL + "members.py",
        "            and report.number < known.report.number\n",
        "            and report.number < 0\n",
        MEMBERS_TESTS,
    ),
    Mutant(
        "a leader writes what it reads itself",
        PROTOCOL + "members.py",
        "return min((each.report.reads for",
        "return max((each.report.reads for",
        MEMBERS_TESTS,
    ),
    Mutant(
        "stamps go back with the clock of a new leader",
        PROTOCOL + "stamps.py",
        "        self.last_ms = max(self.last_ms, clock_ms)\n",
        "        self.last_ms = clock_ms\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "a record that was held up is taken for a clock that is wrong",
        PROTOCOL + "stamps.py",
        "        return min(self._apart_ms, default=0)\n",
        "        return max(self._apart_ms, default=0)\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "a topic that was made anew is followed",
        PROTOCOL + "fitness.py",
        "    return Unfit.BEHIND if last < applied.place else None\n",
        "    return None\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "a topic of another history is followed",
        PROTOCOL + "fitness.py",
        "    if history is not None and history != applied.history:\n",
        "    if history is None:\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "a namespace that has not said anything is taken to deduplicate",
        PROTOCOL + "requirements.py",
        '        deduplicates = _is_true(broker.get("brokerDeduplicationEnabled"))\n',
        "        deduplicates = True\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "one bookie's word is enough",
        PROTOCOL + "requirements.py",
        "    if quorum < ACK_QUORUM_MIN:\n",
        "    if quorum < 1:\n",
        CHECKS_TESTS,
    ),
    Mutant(
        "an entry of a later version is passed over",
        PROTOCOL + "entries.py",
        'raise UnknownVersion(f"expected an entry of version',
        'raise EntryCorrupt(f"expected an entry of version',
        ENTRIES_TESTS,
    ),
    Mutant(
        "the checksum leaves out what kind of entry it is",
        PROTOCOL + "entries.py",
        "    checksum = crc32c(rest, crc32c(bytes([kind])))\n",
        "    checksum = crc32c(rest, crc32c(bytes([Kind.TAKE])))\n",
        ENTRIES_TESTS,
    ),
    Mutant(
        "a directory has more than it says, or less",
        "cluster/arneb_cluster/replica.py",
        "            [*changes.puts, _row(applied)],\n",
        "            changes.puts,\n",
        REPLICA_TESTS,
    ),
    Mutant(
        "what a later commit puts is deleted by an earlier one",
        "cluster/arneb_cluster/replica.py",
        "        return not ends and self.size",
        "        return self.size",
        REPLICA_TESTS,
    ),
    Mutant(
        "what an earlier commit put is there though a later one deletes it",
        "cluster/arneb_cluster/replica.py",
        "        puts += [(table, key, None) for table, key in each.deletes]\n",
        "",
        REPLICA_TESTS,
    ),
    Mutant(
        "a follower puts blocks where old ones are still to be trimmed",
        "cluster/arneb_cluster/replica.py",
        "            while self._is_left_over(",
        "            while False and self._is_left_over(",
        REPLICA_TESTS,
    ),
    Mutant(
        "a follower that starts removes what its leader is writing ahead",
        "core/arneb_core/store/commit/commits.py",
        "            ahead = None if follows else stored.get(Table.META, META_AHEAD)\n",
        "            ahead = stored.get(Table.META, META_AHEAD)\n",
        REPLICA_TESTS,
    ),
    Mutant(
        "what is submitted after leadership was lost waits for ever",
        "cluster/arneb_cluster/commit_log.py",
        "            self._in_loop(ended, self._lost)\n            return None\n",
        "            return None\n",
        LOG_TESTS,
    ),
)
