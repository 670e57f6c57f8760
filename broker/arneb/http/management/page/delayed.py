"""Delayed messages: which queues, topics and exchanges hold some that are not due yet.

The rule: how many there are is what subscriptions know themselves; nothing is read.
"""

from typing import Final

from arneb.http.management.calls import Call, Document, Reply
from arneb.http.management.router import Route
from arneb.http.management.rules import USERS
from arneb.http.management.site import Site
from arneb_amqp.wire.json_fields import text_to_json

SHOWN_MAX: Final = 200
ROWS_PER_TURN: Final = 500


async def _list(site: Site, call: Call) -> Reply:
    by_vhost = await site.rows.of(site.core, site.topology)
    found: list[Document] = []
    looked_at = 0
    for vhost in await site.vhosts_for(call):
        for row in by_vhost.get(vhost.name, ()):
            looked_at += 1
            if looked_at % ROWS_PER_TURN == 0:
                await site.pause()
            delayed = 0
            for each in row.topic.subscriptions.values():
                if sum(each.lengths):
                    delayed = max(delayed, each.statistics().delayed_entries)
            if delayed:
                shown = {"name": text_to_json(row.name), "vhost": vhost.name, "delayed": delayed}
                found.append({**shown, "exchange": False})
    found.sort(key=lambda each: -int(each["delayed"]))
    return Reply(found[:SHOWN_MAX])


ROUTES: Final = (Route("GET", "page/delayed", USERS, _list),)
