"""The mutant list, continued: mistakes about several shards a cluster. Each rule has one.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

CLUSTERED: Final = "broker/arneb/clustered/"
ACCESS: Final = "core/arneb_core/access/"
DIVISION: Final = "cluster/arneb_cluster/routing/division.py"
SHARDS_TESTS: Final = ("tests/cluster/test_shards.py",)
DIVISION_TESTS: Final = ("tests/cluster/routing/test_division.py",)
SETTINGS_TESTS: Final = ("tests/broker/settings/test_shards.py",)
TARGETS_TESTS: Final = ("tests/broker/http/routing/test_targets.py",)
GATHERING_TESTS: Final = ("tests/broker/http/shards/test_gathering.py",)
GATHERED_TESTS: Final = ("tests/broker/http/shards/test_gathered.py",)
WHOLE: Final = "broker/arneb/http/server/whole_answers.py"
WHOLE_TESTS: Final = ("tests/broker/http/server/test_whole_answers.py",)
ASKING: Final = "broker/arneb/clustered/asking_shards.py"
ASKING_TESTS: Final = ("tests/broker/clustered/test_asking_shards.py",)
BELONGING_TESTS: Final = ("tests/core/access/test_belonging.py",)

SHARE_TESTS: Final = ("tests/broker/clustered/test_share.py",)
BEGIN_TESTS: Final = ("tests/cluster/test_shards_begin.py",)
OWN_TESTS: Final = ("tests/broker/clustered/test_own_definitions.py",)

SHARDS_MUTANTS: Final = (
    Mutant(
        "a tenant's shard has what another shard names itself",
        DIVISION,
        '        return found or self.tenants.get(namespace.partition("/")[0], self.first)\n',
        '        return self.tenants.get(namespace.partition("/")[0], found or self.first)\n',
        DIVISION_TESTS,
    ),
    Mutant(
        "two shards may have one namespace",
        "broker/arneb/settings/shards.py",
        "                if (other := found.setdefault(one, each.name)) != each.name:\n",
        '                if (other := found.setdefault(one, each.name)) == "":\n',
        SETTINGS_TESTS,
    ),
    Mutant(
        "a shard is kept in the directory of the first one",
        "broker/arneb/settings/shards.py",
        "    return data_dir / DIRECTORY / shard\n",
        "    return data_dir\n",
        SETTINGS_TESTS,
    ),
    Mutant(
        "what is granted in a vhost is kept by the first shard's leader",
        "broker/arneb/http/routing/targets.py",
        '        "operator-policies", "permissions", "policies", "queues", "shovels", '
        '"topic-permissions",\n',
        '        "operator-policies", "policies", "queues", "shovels", "topic-permissions",\n',
        TARGETS_TESTS,
    ),
    Mutant(
        "a vhost is made in a shard that does not have it",
        ACCESS + "edits.py",
        "            if each and (why := self._belonging.misplaced(each)):\n",
        '            if each and (why := ""):\n',
        BELONGING_TESTS,
    ),
    Mutant(
        "a vhost is made in a shard where its name would not find it",
        ACCESS + "edits.py",
        '        for each in dict.fromkeys((proposed_namespace(name), namespace or "")):\n',
        "        for each in (namespace or proposed_namespace(name),):\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "a user is changed where there is a copy only",
        ACCESS + "belonging.py",
        "        if self.copied_from:\n",
        "        if False:\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "a user who was removed keeps what was granted in another shard",
        ACCESS + "edits.py",
        "                self._delete_user(user.name)\n",
        "                self._drop(user)\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "who removed a user removed it in the first shard only",
        ACCESS + "edits.py",
        "            if (User, user.key) not in keys:\n",
        "            if False:\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "another shard begins with the users of the settings, whose passwords may be old",
        ACCESS + "catalogue.py",
        "            is_copy = bool(self._belonging.copied_from)\n",
        "            is_copy = False\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "what was granted before a user was copied is refused",
        "broker/arneb/http/routing/caught_up.py",
        "                await self._catch_up()\n",
        "                await trio.lowlevel.checkpoint()\n",
        ("tests/broker/http/routing/test_caught_up.py",),
    ),
    Mutant(
        "a shard's leader does not hear of users that are changed later",
        CLUSTERED + "copied_users.py",
        "            await self._copy()\n            await first.metadata_other_than(changes)\n",
        "            await self._copy()\n            await trio.sleep_forever()\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a vhost that is kept in another shard is there twice",
        CLUSTERED + "share.py",
        "        if not self._division.is_divided:\n",
        "        if True:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "the vhosts of the settings are made in every shard",
        CLUSTERED + "share.py",
        "        own = tuple(each for each in vhosts if not self.misplaced("
        "proposed_namespace(each)))\n",
        "        own = tuple(vhosts)\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "clients of a shard come to the first one's broker",
        CLUSTERED + "ports.py",
        "        return self._parts[self._leaders.division.shard_of(namespace)].handed\n",
        "        return self._first.handed\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a client of Pulsar's asks the first shard's broker about topics of another",
        ASKING,
        "            return self._shard_of(_namespace_of(said.topic))\n",
        "            return self._first\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a question is put to a broker that has not let the client in",
        ASKING,
        "        if shard == self._first or side.said_hello:\n",
        "        if side is not None:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a client that asks about two shards is let in twice",
        ASKING,
        "                if parsed.type == BaseCommand.CONNECTED and not side.said_hello:\n",
        "                if parsed.type == BaseCommand.CONNECTED and side.said_hello:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "what a lost broker was asked is never answered",
        ASKING,
        "            for request_id, name in side.pending.items()\n",
        "            for request_id, name in [*side.pending.items()][:0]\n",
        ASKING_TESTS,
    ),
    Mutant(
        "questions to a broker that hangs are held without end",
        ASKING,
        "            if len(side.pending) >= PENDING_MAX:\n",
        "            if False:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a shard's broker serves topics of another shard that its node leads",
        CLUSTERED + "share.py",
        "        if self._leaders.division.shard_of(namespace) != self._shard:\n",
        "        if False:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a list lacks what other shards have",
        "broker/arneb/http/shards/gathering.py",
        '    ("GET", _LISTS, Kind.LIST),\n',
        "",
        GATHERING_TESTS,
    ),
    Mutant(
        "the vhosts of a file of definitions are all made in the first shard",
        "broker/arneb/http/shards/gathering.py",
        'each.get("name" if name == "vhosts" else "vhost")',
        'each.get("vhost")',
        GATHERED_TESTS,
    ),
    Mutant(
        "a user without permissions in one shard only is shown as one without any",
        "broker/arneb/http/shards/gathering.py",
        "    return [each for each in first if all(each in said for _, said in others)]\n",
        "    return [each for each in first if others]\n",
        GATHERING_TESTS,
    ),
    Mutant(
        "totals are the first shard's",
        "broker/arneb/http/shards/gathering.py",
        "    return sum(values)\n",
        "    return values[0]\n",
        GATHERING_TESTS,
    ),
    Mutant(
        "a list that a shard does not give looks whole",
        "broker/arneb/http/shards/gathered.py",
        "        return refused is not None and (not self._goes_on or "
        "refused.status != UNAVAILABLE)\n",
        "        return refused is not None and refused.status != UNAVAILABLE\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "what is gathered is held without a bound",
        "broker/arneb/http/shards/gathered.py",
        "        if self._held > HELD_BYTES_MAX:\n",
        "        if False:\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "for a page behind the last row all rows of all shards are read",
        "broker/arneb/http/shards/gathered.py",
        "            judge_range(found, listing.page)  # or all rows would be read to find none\n",
        "            pass\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "a page behind the last row is refused for what one shard has refused",
        "broker/arneb/http/shards/gathered.py",
        "        if found and not gathering.has_ended:\n",
        "        if found:\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "any number of whole answers is held at once",
        WHOLE,
        "        if HELD.bytes > self.bytes and HELD.bytes + size > HELD.bytes_max:\n",
        "        if False:\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "who is alone may not hold one answer that is longer",
        WHOLE,
        "        if HELD.bytes > self.bytes and HELD.bytes + size > HELD.bytes_max:\n",
        "        if HELD.bytes + size > HELD.bytes_max:\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "what was held for a request that failed is held for ever",
        WHOLE,
        "    finally:\n        _REQUEST.reset(before)\n        HELD.bytes -= request.bytes\n",
        "    finally:\n        _REQUEST.reset(before)\n    HELD.bytes -= request.bytes\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "a part of a leader's answer is passed for all of it",
        WHOLE,
        "    return Answer(status, headers, bytes(said)) if has_room else _come_again()\n",
        "    return Answer(status, headers, bytes(said))\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "long answers of leaders are read where nobody else has a turn meanwhile",
        "broker/arneb/http/shards/gathered.py",
        "            said = await trio.to_thread.run_sync(parse_own_json, answer.body)\n",
        "            said = parse_own_json(answer.body)\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "long lists of all shards are written where nobody else has a turn meanwhile",
        "broker/arneb/http/shards/gathered.py",
        "            return await long_answer_of(await listed(source, listing, between_pieces))\n",
        "            return json_answer(await listed(source, listing, between_pieces))\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "a file of definitions has to be short where there are several shards",
        "broker/arneb/http/shards/gathered.py",
        "    return parse_json(file, brackets_max=BRACKETS_MAX)\n",
        "    return parse_json(file)\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "of each shard one page is looked at, whichever is asked for",
        "broker/arneb/http/shards/gathered.py",
        "        wanted = listing.page.number * listing.page.size\n",
        "        wanted = listing.page.size\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "a transaction is to have topics of two shards, and is not refused",
        "pulsar_frontend/arneb_pulsar/services/namespaces/ownership.py",
        "            if why := self._misplaced(each.namespace):\n",
        '            if why := "":\n',
        SHARDS_TESTS,
    ),
    Mutant(
        "metrics of two shards are the same series",
        "broker/arneb/metrics/together.py",
        "                family.series.append(_labelled(line, found, label))\n",
        "                family.series.append(line)\n",
        ("tests/broker/metrics/test_together.py",),
    ),
    Mutant(
        "a node that leads another shard than the first says nothing of its broker",
        "broker/arneb/clustered/divided_metrics.py",
        "not in METRICS_PATHS or not here:\n",
        "not in METRICS_PATHS or here:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "another site's script changes something in another shard by a session at the page",
        CLUSTERED + "vouched.py",
        '            is_ours = scope["method"] in LOOKING or MARK in headers\n',
        "            is_ours = True\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a topic of another shard is one that is not there",
        "broker/arneb/data/here.py",
        "    if why := misplaced(namespace):\n",
        '    if why := "":\n',
        SHARDS_TESTS,
    ),
    Mutant(
        "an alarm of another shard's leader is not shown",
        "broker/arneb/http/shards/gathering.py",
        '            if said[f"{resource}_alarm"]:\n',
        '            if said is first and said[f"{resource}_alarm"]:\n',
        GATHERING_TESTS,
    ),
    Mutant(
        "settings that divide in another way are not noticed",
        CLUSTERED + "figures.py",
        "    return dict(standing.addresses).get(DIVISION) != own.addresses.get(DIVISION)\n",
        "    return False\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a node that does not follow the first shard leads another without its users",
        CLUSTERED + "share.py",
        '            raise StoreUnusable(f"cannot lead shard {self._shard}: {error}") from error\n',
        "            copied = ()\n",
        ("tests/broker/clustered/test_share.py",),
    ),
    Mutant(
        "whatever shard is named, the first is handed over",
        CLUSTERED + "hand_overs.py",
        "        shard = self._shards.get(name)\n        if shard is None:\n",
        "        shard = next(iter(self._shards.values()))\n        if shard is None:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "what is kept of a shard that settings name no more is not seen",
        CLUSTERED + "shards.py",
        "        if path.name not in named and (path / DATA_FILE).exists():\n",
        "        if False:\n",
        SETTINGS_TESTS,
    ),
    Mutant(
        "what was proved at a login goes from node to node in clear",
        "broker/arneb/http/management/app.py",
        'headers[PROOF] = SHOWN if scope["scheme"] == SECURE else ""\n',
        "headers[PROOF] = SHOWN\n",
        ("tests/broker/http/management/test_sessions.py",),
    ),
    Mutant(
        "whom somebody else knows may what a user of the same name may at another shard",
        CLUSTERED + "vouched.py",
        " if proof is None else UNPROVED,\n",
        ",\n",
        ("tests/broker/http/management/test_sessions.py", "tests/broker/clustered/test_vouched.py"),
    ),
    Mutant(
        "what each shard numbers by itself is looked for in one after the other",
        "broker/arneb/http/shards/gathering.py",
        '    ("GET|DELETE", _NUMBERED, Kind.NUMBERED),\n',
        '    ("GET|DELETE", _NUMBERED, Kind.FOUND),\n',
        GATHERING_TESTS,
    ),
    Mutant(
        "the noisiest client of each shard is the noisy one",
        "broker/arneb/http/shards/gathered.py",
        "            judge_noise(found)\n",
        "            pass\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "of what the page lacks nothing is said",
        "broker/arneb/http/shards/gathered.py",
        '        return json_answer({**shown, "missing": sorted(gathering.missing)})\n',
        '        return json_answer({**shown, "missing": []})\n',
        GATHERED_TESTS,
    ),
    Mutant(
        "what the page watches is the first shard's",
        "broker/arneb/http/management/streaming.py",
        "    everywhere = None if watch.is_of_one else watch.site.everywhere()\n",
        "    everywhere = None\n",
        ("tests/cluster/test_shards_page.py",),
    ),
    Mutant(
        "a tenant is removed that has namespaces in another shard",
        "broker/arneb/http/shards/gathered_pulsar.py",
        "            if answer.is_good and json.loads(answer.body):\n",
        "            if False:\n",
        BEGIN_TESTS,
    ),
    Mutant(
        "a tenant that is changed is what it was in other shards",
        CLUSTERED + "copied_tenants.py",
        "            await self.copy()\n            await first.metadata_other_than(changes)\n",
        "            await self.copy()\n            await trio.sleep_forever()\n",
        BEGIN_TESTS,
    ),
    Mutant(
        "a resource group keeps in other shards what was said of one before it",
        CLUSTERED + "copied_tenants.py",
        "groups.put(name, json.loads(raw), anew=True)",
        "groups.put(name, json.loads(raw))",
        SHARE_TESTS,
    ),
    Mutant(
        "rows of one shard change places between two pages",
        "broker/arneb/http/shards/merging.py",
        "    for row in merge(*(each.rows for each in parts), key=key, reverse=listing.reverse):\n",
        "    every = [row for each in parts for row in each.rows]\n"
        "    for row in sorted(every, key=key, reverse=listing.reverse):\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "clients of several shards are put in another order than those of each",
        "broker/arneb/http/shards/merging.py",
        '{"opened": lambda row: row["opened_ms"]}',
        '{"opened": lambda row: row["opened_ms"], "name": lambda row: row["shown_name"]}',
        GATHERED_TESTS,
    ),
    Mutant(
        "a namespace is made before its tenant is known",
        CLUSTERED + "share.py",
        "            await self._tenants.copy()\n",
        "            pass\n",
        SHARE_TESTS,
    ),
    Mutant(
        "what is granted to somebody who comes later is forgotten",
        CLUSTERED + "own_definitions.py",
        "            late += [each for each in rows if not _is_known(each, catalogue)]\n",
        "            late += []\n",
        OWN_TESTS,
    ),
    Mutant(
        "each shard takes in all definitions",
        CLUSTERED + "own_definitions.py",
        "        found = cut(document, (division.first, shard), division.shard_of)"
        ".get(shard, {})\n",
        "        found = document\n",
        OWN_TESTS,
    ),
    Mutant(
        "limits of a node hold for each of its brokers",
        "amqp_frontend/arneb_amqp/server/admission/occupancy.py",
        "        if 0 <= most <= sum(len(each.places) for each in self._node):\n",
        "        if 0 <= most <= len(self.places):\n",
        ("tests/amqp_frontend/server/admission/test_occupancy_of_a_node.py",),
    ),
    Mutant(
        "a broker that is no more counts in the limits of its node",
        "amqp_frontend/arneb_amqp/server/admission/occupancy.py",
        "        self._node.remove(self)\n",
        "        return\n",
        ("tests/amqp_frontend/server/admission/test_occupancy_of_a_node.py",),
    ),
    Mutant(
        "an audit record does not say which shard was changed",
        "broker/arneb/logs/audit_log.py",
        "        if label := shard_label():\n",
        '        if label := "":\n',
        ("tests/broker/logs/test_shard_label.py",),
    ),
)
