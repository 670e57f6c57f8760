"""Mutants of a cluster with several shards. Each rule has one.

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
ASKING: Final = "broker/arneb/clustered/ports/asking_shards.py"
ASKING_TESTS: Final = ("tests/broker/clustered/ports/test_asking_shards.py",)
BELONGING_TESTS: Final = ("tests/core/access/test_belonging.py",)

SHARE_TESTS: Final = ("tests/broker/clustered/share/test_share.py",)
BEGIN_TESTS: Final = ("tests/cluster/test_shards_begin.py",)
OWN_TESTS: Final = ("tests/broker/clustered/share/test_own_definitions.py",)

SHARDS_MUTANTS: Final = (
    Mutant(
        "a tenant's shard has a namespace that another shard names itself",
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
        "a shard is stored in the directory of the first one",
        "broker/arneb/settings/shards.py",
        "    return data_dir / DIRECTORY / shard\n",
        "    return data_dir\n",
        SETTINGS_TESTS,
    ),
    Mutant(
        "permissions in a vhost are stored by the first shard's leader",
        "broker/arneb/http/routing/targets.py",
        '        "operator-policies", "permissions", "policies", "queues", "shovels", '
        '"topic-permissions",\n',
        '        "operator-policies", "policies", "queues", "shovels", "topic-permissions",\n',
        TARGETS_TESTS,
    ),
    Mutant(
        "a vhost is created in a shard that does not have it",
        ACCESS + "edits.py",
        "            if each and (why := self._belonging.misplaced(each)):\n",
        '            if each and (why := ""):\n',
        BELONGING_TESTS,
    ),
    Mutant(
        "a vhost is created in a shard where its name would not find it",
        ACCESS + "edits.py",
        '        for each in dict.fromkeys((proposed_namespace(name), namespace or "")):\n',
        "        for each in (namespace or proposed_namespace(name),):\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "a user is changed where there is only a copy",
        ACCESS + "belonging.py",
        "        if self.copied_from:\n",
        "        if False:\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "a removed user keeps its permissions in another shard",
        ACCESS + "edits.py",
        "                self._delete_user(user.name)\n",
        "                self._drop(user)\n",
        BELONGING_TESTS,
    ),
    Mutant(
        "a user is removed in the first shard only",
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
        "a permission granted before its user was copied is refused",
        "broker/arneb/http/routing/caught_up.py",
        "                await self._catch_up()\n",
        "                await trio.lowlevel.checkpoint()\n",
        ("tests/broker/http/routing/test_caught_up.py",),
    ),
    Mutant(
        "a shard's leader does not learn of later changes of users",
        CLUSTERED + "share/copied_users.py",
        "            await self._copy()\n            await first.metadata_other_than(changes)\n",
        "            await self._copy()\n            await trio.sleep_forever()\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a vhost that is stored in another shard exists twice",
        CLUSTERED + "share/share.py",
        "        if not self._division.is_divided:\n",
        "        if True:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "the vhosts of the settings are created in every shard",
        CLUSTERED + "share/share.py",
        "        own = tuple(each for each in vhosts if not self.misplaced("
        "proposed_namespace(each)))\n",
        "        own = tuple(vhosts)\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "clients of a shard reach the first one's broker",
        CLUSTERED + "ports/ports.py",
        "        return self._parts[self._leaders.division.shard_of(namespace)].handed\n",
        "        return self._first.handed\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a Pulsar client asks the first shard's broker about topics of another",
        ASKING,
        "            return self._shard_of(_namespace_of(fields.topic))\n",
        "            return self._first\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a request is sent to a broker that has not admitted the client",
        ASKING,
        "        if shard == self._first or side.said_hello:\n",
        "        if side is not None:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a client that asks about two shards is admitted twice",
        ASKING,
        "                if parsed.type == BaseCommand.CONNECTED and not side.said_hello:\n",
        "                if parsed.type == BaseCommand.CONNECTED and side.said_hello:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "requests to a lost broker are never answered",
        ASKING,
        "            for request_id, name in side.pending.items()\n",
        "            for request_id, name in [*side.pending.items()][:0]\n",
        ASKING_TESTS,
    ),
    Mutant(
        "unanswered requests to a hanging broker are not bounded",
        ASKING,
        "            if len(side.pending) >= PENDING_MAX:\n",
        "            if False:\n",
        ASKING_TESTS,
    ),
    Mutant(
        "a shard's broker serves topics of another shard that its node leads",
        CLUSTERED + "share/share.py",
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
        "the vhosts of a definitions file are all created in the first shard",
        "broker/arneb/http/shards/gathering.py",
        'each.get("name" if name == "vhosts" else "vhost")',
        'each.get("vhost")',
        GATHERED_TESTS,
    ),
    Mutant(
        "a user without permissions in one shard only is shown as one without any",
        "broker/arneb/http/shards/gathering.py",
        "    return [each for each in first if all(each in document for _, document in others)]\n",
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
        "a list looks complete though a shard did not answer",
        "broker/arneb/http/shards/gathered.py",
        "        return refused is not None and (not self._goes_on or "
        "refused.status != UNAVAILABLE)\n",
        "        return refused is not None and refused.status != UNAVAILABLE\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "gathered answers are not bounded",
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
        "a page behind the last row is refused with one shard's reason",
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
        "a single request may not hold a longer answer",
        WHOLE,
        "        if HELD.bytes > self.bytes and HELD.bytes + size > HELD.bytes_max:\n",
        "        if HELD.bytes + size > HELD.bytes_max:\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "what was held for a failed request is held forever",
        WHOLE,
        "    finally:\n        _REQUEST.reset(before)\n        HELD.bytes -= request.bytes\n",
        "    finally:\n        _REQUEST.reset(before)\n    HELD.bytes -= request.bytes\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "a part of a leader's answer passes for all of it",
        WHOLE,
        "    return Answer(status, headers, bytes(content)) if has_room else _come_again()\n",
        "    return Answer(status, headers, bytes(content))\n",
        WHOLE_TESTS,
    ),
    Mutant(
        "long answers of leaders are parsed in one turn",
        "broker/arneb/http/shards/gathered.py",
        "            document = await trio.to_thread.run_sync(parse_own_json, answer.body)\n",
        "            document = parse_own_json(answer.body)\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "long lists of all shards are written in one turn",
        "broker/arneb/http/shards/gathered.py",
        "            return await long_answer_of(await listed(source, listing, between_pieces))\n",
        "            return json_answer(await listed(source, listing, between_pieces))\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "a definitions file has to be short where there are several shards",
        "broker/arneb/http/shards/gathered.py",
        "    return parse_json(file, brackets_max=BRACKETS_MAX)\n",
        "    return parse_json(file)\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "one page of each shard is read, whichever is asked for",
        "broker/arneb/http/shards/gathered.py",
        "        wanted = listing.page.number * listing.page.size\n",
        "        wanted = listing.page.size\n",
        GATHERED_TESTS,
    ),
    Mutant(
        "a transaction with topics of two shards is not refused",
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
        "a node that leads another shard than the first does not report its broker",
        "broker/arneb/clustered/ports/divided_metrics.py",
        "not in METRICS_PATHS or not here:\n",
        "not in METRICS_PATHS or here:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "another site's script changes another shard with a session of the page",
        CLUSTERED + "ports/vouched.py",
        '            is_ours = scope["method"] in LOOKING or MARK in headers\n',
        "            is_ours = True\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a topic of another shard counts as missing",
        "broker/arneb/data/here.py",
        "    if why := misplaced(namespace):\n",
        '    if why := "":\n',
        SHARDS_TESTS,
    ),
    Mutant(
        "an alarm of another shard's leader is not shown",
        "broker/arneb/http/shards/gathering.py",
        '            if document[f"{resource}_alarm"]:\n',
        '            if document is first and document[f"{resource}_alarm"]:\n',
        GATHERING_TESTS,
    ),
    Mutant(
        "settings that divide differently are not noticed",
        CLUSTERED + "shards/figures.py",
        "    return dict(leader.addresses).get(DIVISION) != own.addresses.get(DIVISION)\n",
        "    return False\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "a node that does not follow the first shard leads another without its users",
        CLUSTERED + "share/share.py",
        '            raise StoreUnusable(f"cannot lead shard {self._shard}: {error}") from error\n',
        "            copied = ()\n",
        ("tests/broker/clustered/share/test_share.py",),
    ),
    Mutant(
        "whichever shard is named, the first is handed over",
        CLUSTERED + "shards/hand_overs.py",
        "        shard = self._shards.get(name)\n        if shard is None:\n",
        "        shard = next(iter(self._shards.values()))\n        if shard is None:\n",
        SHARDS_TESTS,
    ),
    Mutant(
        "the data of a shard that settings no longer name is not noticed",
        CLUSTERED + "shards/shards.py",
        "        if path.name not in named and (path / DATA_FILE).exists():\n",
        "        if False:\n",
        SETTINGS_TESTS,
    ),
    Mutant(
        "a login's credentials are sent between nodes without encryption",
        "broker/arneb/http/management/app.py",
        'headers[PROOF] = SHOWN if scope["scheme"] == SECURE else ""\n',
        "headers[PROOF] = SHOWN\n",
        ("tests/broker/http/management/test_sessions.py",),
    ),
    Mutant(
        "a user of another server has the rights of a catalogue user of its name at another shard",
        CLUSTERED + "ports/vouched.py",
        " if proof is None else UNPROVED,\n",
        ",\n",
        (
            "tests/broker/http/management/test_sessions.py",
            "tests/broker/clustered/ports/test_vouched.py",
        ),
    ),
    Mutant(
        "objects that each shard numbers itself are searched for in all",
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
        "the page does not say that something is missing",
        "broker/arneb/http/shards/gathered.py",
        '        return json_answer({**shown, "missing": sorted(gathering.missing)})\n',
        '        return json_answer({**shown, "missing": []})\n',
        GATHERED_TESTS,
    ),
    Mutant(
        "the page watches only the first shard",
        "broker/arneb/http/management/streaming.py",
        "    everywhere = None if watch.is_of_one else watch.site.everywhere()\n",
        "    everywhere = None\n",
        ("tests/cluster/test_shards_page.py",),
    ),
    Mutant(
        "a tenant with namespaces in another shard is removed",
        "broker/arneb/http/shards/gathered_pulsar.py",
        "            if answer.is_good and json.loads(answer.body):\n",
        "            if False:\n",
        BEGIN_TESTS,
    ),
    Mutant(
        "a changed tenant is unchanged in other shards",
        CLUSTERED + "share/copied_tenants.py",
        "            await self.copy()\n            await first.metadata_other_than(changes)\n",
        "            await self.copy()\n            await trio.sleep_forever()\n",
        BEGIN_TESTS,
    ),
    Mutant(
        "a resource group keeps in other shards the limits of an earlier one",
        CLUSTERED + "share/copied_tenants.py",
        "groups.put(name, json.loads(raw), replace=True)",
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
        "clients of several shards are in another order than in each",
        "broker/arneb/http/shards/merging.py",
        '{"opened": lambda row: row["opened_ms"]}',
        '{"opened": lambda row: row["opened_ms"], "name": lambda row: row["shown_name"]}',
        GATHERED_TESTS,
    ),
    Mutant(
        "a namespace is created before its tenant is known",
        CLUSTERED + "share/share.py",
        "            await self._tenants.copy()\n",
        "            pass\n",
        SHARE_TESTS,
    ),
    Mutant(
        "permissions of a user who is added later are forgotten",
        CLUSTERED + "share/own_definitions.py",
        "            late += [each for each in rows if not _is_known(each, catalogue)]\n",
        "            late += []\n",
        OWN_TESTS,
    ),
    Mutant(
        "each shard imports all definitions",
        CLUSTERED + "share/own_definitions.py",
        "        found = cut(document, (division.first, shard), division.shard_of)"
        ".get(shard, {})\n",
        "        found = document\n",
        OWN_TESTS,
    ),
    Mutant(
        "limits of a node apply to each of its brokers",
        "amqp_frontend/arneb_amqp/server/admission/occupancy.py",
        "        if 0 <= most <= sum(len(each.occupants) for each in self._node):\n",
        "        if 0 <= most <= len(self.occupants):\n",
        ("tests/amqp_frontend/server/admission/test_occupancy_of_a_node.py",),
    ),
    Mutant(
        "a former broker counts in the limits of its node",
        "amqp_frontend/arneb_amqp/server/admission/occupancy.py",
        "        self._node.remove(self)\n",
        "        return\n",
        ("tests/amqp_frontend/server/admission/test_occupancy_of_a_node.py",),
    ),
    Mutant(
        "an audit record does not name the shard",
        "broker/arneb/logs/audit_log.py",
        "        if label := shard_label():\n",
        '        if label := "":\n',
        ("tests/broker/logs/test_shard_label.py",),
    ),
)
