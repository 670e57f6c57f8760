"""Mutants of commits that are held in memory before they are on disk.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

HELD: Final = "core/arneb_core/store/journal/held_commits.py"
BACKUP_TESTS: Final = ("tests/broker/commands/test_backup.py",)
COMMITS: Final = "core/arneb_core/store/commit/commits.py"
REPLICA: Final = "cluster/arneb_cluster/replica.py"
ORDERED: Final = "cluster/arneb_cluster/ordered.py"
STORE_TESTS: Final = ("tests/core/store/journal/test_held_commits_model.py",)
DIRECTORY_TESTS: Final = ("tests/cluster/test_held_directories.py",)
ORDERED_TESTS: Final = ("tests/cluster/test_ordered.py",)

HELD_MUTANTS: Final = (
    Mutant(
        "commits that are only held let the topic be trimmed",
        "cluster/arneb_cluster/membership.py",
        "        flushed, settings = self._replica.flushed, self._settings\n",
        "        flushed, settings = self._replica.applied, self._settings\n",
        DIRECTORY_TESTS,
    ),
    Mutant(
        "a commit is laid over a store that already has it",
        HELD,
        "    return [each.changes for each in commits if not each.is_in(transaction)]\n",
        "    return [each.changes for each in commits]\n",
        STORE_TESTS,
    ),
    Mutant(
        "a snapshot from before a takeover loses what that takes over",
        HELD,
        "            each.taken_in = transaction\n",
        "            each.taken_in = 0\n",
        STORE_TESTS,
    ),
    Mutant(
        "after a failed takeover, another transaction of its number hides what it was to write",
        HELD,
        "        for each in commits:\n            each.taken_in = None\n",
        "        for each in commits:\n            each.taken_in = each.taken_in\n",
        STORE_TESTS,
    ),
    Mutant(
        "a takeover writes the newest first",
        COMMITS,
        "                    for each in late:\n"
        "                        if each.puts or each.deletes:\n",
        "                    for each in reversed(late):\n"
        "                        if each.puts or each.deletes:\n",
        STORE_TESTS,
    ),
    Mutant(
        "a commit overtakes what was held before it",
        COMMITS,
        "                    for each in late:\n"
        "                        if each.puts or each.deletes:\n"
        "                            transaction.apply(each, Encoded())\n"
        "                    transaction.apply(changes, encoded)\n",
        "                    transaction.apply(changes, encoded)\n"
        "                    for each in late:\n"
        "                        if each.puts or each.deletes:\n"
        "                            transaction.apply(each, Encoded())\n",
        STORE_TESTS,
    ),
    Mutant(
        "a takeover counts the newest held commits as the ones it wrote",
        HELD,
        "        del self._commits[: len(commits)]\n",
        "        del self._commits[-len(commits) :]\n",
        STORE_TESTS,
    ),
    Mutant(
        "what arrives during a takeover is dropped with it",
        HELD,
        "        del self._commits[: len(commits)]\n",
        "        self._commits.clear()\n",
        STORE_TESTS,
    ),
    Mutant(
        "what a takeover could not write is forgotten",
        COMMITS,
        "                self._held.failed(self._attempt.held)\n            self._attempt = None",
        "                self._held.took(self._attempt.held)\n            self._attempt = None",
        STORE_TESTS,
    ),
    Mutant(
        "what LMDB was to write as it failed is forgotten",
        COMMITS,
        "            self._landed(self._attempt)\n"
        "        else:\n"
        "            self._held.failed(self._attempt.held)\n",
        "            self._landed(self._attempt)\n"
        "        else:\n"
        "            self._held.took(self._attempt.held)\n",
        STORE_TESTS,
    ),
    Mutant(
        "a new reader finds held commits behind what is on disk",
        "core/arneb_core/store/environment.py",
        "        held = self._held.copy()\n        txn = self._live.begin_snapshot()\n",
        "        txn = self._live.begin_snapshot()\n        held = self._held.copy()\n",
        ("tests/core/store/journal/test_held_commits.py",),
    ),
    Mutant(
        "more is held while something is to be trimmed",
        COMMITS,
        "        if not self._holds or self._trims or self._live.is_broken:\n",
        "        if not self._holds or self._live.is_broken:\n",
        ("tests/cluster/test_replica.py",),
    ),
    Mutant(
        "a directory claims less than a takeover wrote",
        REPLICA,
        "puts=[applied_row(held[-1])]), held[-1], len(held))\n",
        "puts=[applied_row(held[0])]), held[0], len(held))\n",
        DIRECTORY_TESTS,
    ),
    Mutant(
        "a directory claims what is held during a takeover",
        REPLICA,
        "puts=[applied_row(held[-1])]), held[-1], len(held))\n",
        "puts=[applied_row(self.applied)]), self.applied, len(held))\n",
        DIRECTORY_TESTS,
    ),
    Mutant(
        "what is held during a takeover is never taken over",
        REPLICA,
        "        del self._held[:held]\n",
        "        self._held.clear()\n",
        DIRECTORY_TESTS,
    ),
    Mutant(
        "a disk that cannot report its room ends a node that starts",
        COMMITS,
        "        except (lmdb.Error, OSError, CommitFailed):  # the commit counts,",
        "        except StoreFull:  #",
        ("tests/core/store/journal/test_held_commits.py",),
    ),
    Mutant(
        "each commit asks a full disk for room",
        COMMITS,
        "        if self._prepare_in:\n",
        "        if False:\n",
        ("tests/core/store/journal/test_held_commits.py",),
    ),
    Mutant(
        "each commit asks for room that exists inside the file",
        COMMITS,
        "        if not self._room.is_at_hand(need):\n            raise StoreFull(",
        "        if False:\n            raise StoreFull(",
        ("tests/core/store/journal/test_held_commits.py",),
    ),
    Mutant(
        "the next commit is held inside the report of the last",
        ORDERED,
        "        if self._queue and not self._works and not self._holds:\n",
        "        if self._queue and not self._works:\n",
        ORDERED_TESTS,
    ),
    Mutant(
        "a commit is held before what a thread is applying is there",
        ORDERED,
        "        if self._queue and not self._works and not self._holds:\n",
        "        if self._queue and not self._holds:\n",
        ORDERED_TESTS,
    ),
    Mutant(
        "a commit that cannot be held goes to the end",
        ORDERED,
        "                    queue.appendleft(first)\n",
        "                    queue.append(first)\n",
        ORDERED_TESTS,
    ),
    Mutant(
        "a commit behind an action is held before the action is carried out",
        ORDERED,
        "            while queue and isinstance(first := queue[0], Apply):\n"
        "                queue.popleft()\n"
        "                if not self._applying.hold(first):\n",
        "            while first := next((e for e in queue if isinstance(e, Apply)), None):\n"
        "                queue.remove(first)\n"
        "                if not self._applying.hold(first):\n",
        ORDERED_TESTS,
    ),
    Mutant(
        "a backup of a leader lacks what is held",
        "broker/arneb/commands/backup.py",
        "    _have_flushed(directory)\n",
        "",
        ("tests/cluster/test_founding.py",),
    ),
    Mutant(
        "a backup of a member that does not answer silently lacks what is held",
        "broker/arneb/commands/backup.py",
        "    except TimeoutError:\n",
        "    except TimeoutError:\n        return\n",
        BACKUP_TESTS,
    ),
    Mutant(
        "a backup by a user who may not ask the member silently lacks what is held",
        "broker/arneb/commands/backup.py",
        "    except NoneRunning:\n",
        "    except Unreachable:\n",
        BACKUP_TESTS,
    ),
    Mutant(
        "nobody is asked for the backup of a shard's directory that is named from outside",
        "broker/arneb/settings/shards.py",
        "    whole = Path(os.path.realpath(directory))\n",
        "    whole = directory\n",
        BACKUP_TESTS,
    ),
    Mutant(
        "nobody is asked for the backup of a node whose directory is in one called shards",
        "broker/arneb/settings/shards.py",
        " or (whole / CONTROL_NAME).exists():\n",
        ":\n",
        BACKUP_TESTS,
    ),
    Mutant(
        "a record waits for the next turn before it is written",
        "cluster/arneb_cluster/pulsar/producer.py",
        "        connection.flush_now()\n",
        "        connection.flush()\n",
        ("tests/cluster/test_producer.py",),
    ),
)
