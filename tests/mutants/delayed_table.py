"""The mistakes of delayed delivery; see :mod:`tests.mutants.table`."""

from typing import Final

from tests.mutants.table import CORE, Mutant

DELAYED_TESTS: Final = ("tests/core/engine/test_delayed.py",)
BUCKET_TESTS: Final = ("tests/core/delayed/test_buckets.py",)

DUE_TESTS: Final = ("tests/core/subscription/sources/test_due.py",)

INDEX_TESTS: Final = ("tests/core/delayed/test_index.py",)
MODEL_TESTS: Final = ("tests/core/engine/test_delayed_model.py",)

AMQP_FORMS: Final = "amqp_frontend/arneb_amqp/session/publish/delay_forms.py"
FORM_TESTS: Final = ("tests/amqp_frontend/session/publish/test_delay_forms.py",)

DELAYED_MUTANTS: Final = (
    Mutant(
        "keys that a slice of a seal begins with are left out",
        "core/arneb_core/delayed/sealing.py",
        "bisect_left(part, pivot, start)\n            found += part[start:end]\n",
        "bisect_left(part, pivot, start)\n            found += part[start + 1 : end]\n",
        ("tests/core/delayed/test_sealing.py",),
    ),
    Mutant(
        "a seal packs everything in one turn",
        "core/arneb_core/delayed/sealing.py",
        "    step = max(1, size // len(parts))\n",
        "    step = max(map(len, parts))\n",
        ("tests/core/delayed/test_sealing.py",),
    ),
    Mutant(
        "a seal that could not go on is never made again",
        "core/arneb_core/delayed/sealing.py",
        "            self._failed(found)\n",
        "            pass\n",
        ("tests/core/delayed/test_buckets.py",),
    ),
    Mutant(
        "each subscription reads for itself what came due",
        CORE + "delayed/due_cache.py",
        "        if waiting is not None:\n",
        "        if waiting is not None and not places:\n",
        DUE_TESTS,
    ),
    Mutant(
        "a run is said to have nothing that is delayed, and so nobody holds it back",
        "pulsar_frontend/arneb_pulsar/packing/entries.py",
        "                    is_some_delayed = True\n",
        "                    pass\n",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "what has a key and a time is delivered at once",
        "pulsar_frontend/arneb_pulsar/packing/entries.py",
        "                    is_some_delayed |= at_ms > 0\n",
        "",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "the times of a run that are near each other are one",
        "pulsar_frontend/arneb_pulsar/packing/entries.py",
        "                    at_ms += deliver_at[0] - 0x80 + (deliver_at[1] - 0x80 << 7)\n",
        "",
        ("tests/pulsar_frontend/packing/test_entries.py",),
    ),
    Mutant(
        "all that came due stays in memory",
        CORE + "delayed/due_cache.py",
        "        while self._bytes > self._bytes_max:\n",
        "        while self._bytes > 1 << 40:\n",
        DUE_TESTS,
    ),
    Mutant(
        "what came due stays in memory when nobody wants it",
        CORE + "delayed/index.py",
        "            self.cache.clear()\n",
        "            pass\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "what another subscription found is believed though more came",
        CORE + "delayed/index.py",
        "        self._last = None\n        count = len(self.tracker.members)\n",
        "        count = len(self.tracker.members)\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "what is due in order of its times comes in that of the log",
        CORE + "subscription/held_back.py",
        "            if not self._by_time:\n",
        "            if True:\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "delayed entries are delivered at once",
        CORE + "delayed/index.py",
        "        soonest_ms = self.tracker.add(keys, run.last, rolled=rolled)\n",
        "        soonest_ms = self.tracker.add([], run.last, rolled=rolled)\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "a subscription that is being made gets what is delayed at once",
        CORE + "engine/topic.py",
        "        subscription.expect_delays()\n        subscription.machine.log_trimmed()\n",
        "        subscription.machine.log_trimmed()\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "a delayed entry comes a tick early",
        CORE + "subscription/held_back.py",
        "self._index.read(self._place, now_ms, limit",
        "self._index.read(self._place, now_ms + 1, limit",
        DELAYED_TESTS,
    ),
    Mutant(
        "nobody wakes up when an entry comes due",
        CORE + "subscription/held_back.py",
        "            self._state.outbox.put(WakeAt(self._next_ms))\n",
        "            pass\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "what is due waits behind what is new",
        CORE + "subscription/ready.py",
        "            due = held_back.source()\n",
        "            due = held_back.source() if self._reader.peek() is None else None\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "delayed entries are lost with the process",
        CORE + "engine/delayed_indexes.py",
        "            unsealed += [key for key in keys if place_of(key) not in known]\n",
        "            pass\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "a damaged delayed index is believed",
        CORE + "store/delayed_rows.py",
        "    if len(value) < U32.size or crc32c(data) != ",
        "    if len(value) < U32.size or len(data) < 0 != ",
        DELAYED_TESTS,
    ),
    Mutant(
        "a delayed entry that came back waits for ever",
        CORE + "subscription/held_back.py",
        "self._due if place in skip else place <= after",
        "self._due if False else place <= after",
        DELAYED_TESTS,
    ),
    Mutant(
        "the index goes though somebody has not read it",
        CORE + "delayed/index.py",
        "                place, after = min(place, each.place), min(after, each.after)\n",
        "                place, after = each.place, each.after\n",
        DELAYED_TESTS,
    ),
    Mutant(
        "a bucket that was merged a moment ago counts as lost",
        CORE + "delayed/buckets.py",
        "            each.is_merging = True\n",
        "            each.is_merging = False\n",
        BUCKET_TESTS,
    ),
    Mutant(
        "after a segment the bucket is thought to be at its end",
        CORE + "delayed/buckets.py",
        "                complete = min(complete, DueKey(span.last + 1))\n",
        "                pass\n",
        BUCKET_TESTS,
    ),
    Mutant(
        "every segment that was read stays in memory",
        CORE + "delayed/buckets.py",
        "        while len(self._segments) > held_max:\n",
        "        while len(self._segments) > 1_000_000:\n",
        BUCKET_TESTS,
    ),
    Mutant(
        "after a seek a subscription is given what others got from the same place",
        CORE + "delayed/index.py",
        "        is_shared = place >= self._passed\n",
        "        is_shared = True\n",
        MODEL_TESTS,
    ),
    Mutant(
        "a batch that waits for somebody does not know what came in since",
        CORE + "delayed/index.py",
        "                self._batches[after] = replace(batch, next_ms=next_ms)\n",
        "                pass\n",
        DELAYED_TESTS + INDEX_TESTS,
    ),
    Mutant(
        "what was seen before a start and what was not are one batch",
        CORE + "delayed/due_batch.py",
        "                self._end = self._vouched_from\n",
        "                pass\n",
        INDEX_TESTS,
    ),
    Mutant(
        "batches stay when nobody stands before them any more",
        CORE + "delayed/index.py",
        "for at, each in self._batches.items() if at in standing}",
        "for at, each in self._batches.items()}",
        INDEX_TESTS,
    ),
    Mutant(
        "a slow subscription is given as much at once as a quick one",
        CORE + "delayed/index.py",
        "            elif took_ms > 2 * QUICK_MS:\n",
        "            elif took_ms < 0:\n",
        INDEX_TESTS,
    ),
    Mutant(
        "a batch brings what was acknowledged meanwhile",
        CORE + "subscription/wanted.py",
        "BitMap64(state.acks.acknowledged_in(batch.chunks)), out)\n",
        "out)\n",
        MODEL_TESTS,
    ),
    Mutant(
        "a batch brings what is out already",
        CORE + "subscription/wanted.py",
        "BitMap64(state.acks.acknowledged_in(batch.chunks)), out)\n",
        "BitMap64(state.acks.acknowledged_in(batch.chunks)))\n",
        MODEL_TESTS,
    ),
    Mutant(
        "a page that another subscription had read is taken for one's own",
        CORE + "subscription/sources/due.py",
        "page is None or page.positions != self._listed(run, at, len(page.positions))",
        "page is None",
        DUE_TESTS,
    ),
    Mutant(
        "of a page that is shared, what is not wanted goes out too",
        CORE + "subscription/sources/due.py",
        "        if self._has_gaps:\n            self._leave_out()\n",
        "",
        DUE_TESTS,
    ),
    Mutant(
        "what went comes back with what comes due next",
        CORE + "subscription/sources/due.py",
        "            self._close_gaps()\n        if wanted is None:\n",
        "            pass\n        if wanted is None:\n",
        DUE_TESTS,
    ),
    Mutant(
        "a subscription forgets that times count when the first entry is delayed",
        CORE + "subscription/machine.py",
        "self.delivery.past, index, by_time=by_time)",
        "self.delivery.past, index)",
        DELAYED_TESTS,
    ),
    Mutant(
        "a message that is delayed by its form comes at the time of the first",
        AMQP_FORMS,
        "pack_time(now + delay_ms)",
        "pack_time(now)",
        FORM_TESTS,
    ),
    Mutant(
        "a form outlives the topology that it was found in",
        AMQP_FORMS,
        "        if route is not self._route:\n",
        "        if self._route is None:\n",
        FORM_TESTS,
    ),
    Mutant(
        "what depends on more than the delay is delayed by a form",
        AMQP_FORMS,
        "result.queues or result.depends_on_more or",
        "result.queues or",
        FORM_TESTS,
    ),
    Mutant(
        "what came due is routed by the form of the message before",
        "amqp_frontend/arneb_amqp/topology/exchanges/due_form.py",
        "            entry.startswith(self.before, BEHIND_TIMES)\n            and ",
        "            ",
        ("tests/amqp_frontend/topology/exchanges/test_delayed.py",),
    ),
    Mutant(
        "acknowledgements are read on past their ledger",
        "pulsar_frontend/arneb_pulsar/packing/places.py",
        "        alike = _alike(raw, at, step, head, left)\n",
        "        alike = left\n",
        ("tests/pulsar_frontend/packing/test_places.py",),
    ),
    Mutant(
        "what waits behind the commit that notes delays relies on it",
        CORE + "engine/catalog.py",
        "        untold.add(topic)\n",
        "",
        ("tests/core/engine/test_delayed.py",),
    ),
)
