"""The table of all routes.

The rule: a route that is not here is not served; those that need no login are in :data:`OPEN`.
"""

from typing import Final

from arneb.http.management import login
from arneb.http.management.access import permissions, users, vhosts
from arneb.http.management.clients import channels, connections
from arneb.http.management.definitions import definitions
from arneb.http.management.node import health, nodes, overview
from arneb.http.management.page import (
    browsing,
    clients,
    delayed,
    moving,
    node,
    pulsar_client,
    queue,
    republishing,
    routing,
    topics,
    transactions,
    watching,
)
from arneb.http.management.page import login as page_login
from arneb.http.management.parameters import limits, parameters, policies, shovels
from arneb.http.management.router import Router
from arneb.http.management.topology import bindings, exchanges, messages, queues

ROUTER: Final = Router(
    (
        *overview.ROUTES,
        *nodes.ROUTES,
        *definitions.ROUTES,
        *connections.ROUTES,
        *channels.ROUTES,
        *exchanges.ROUTES,
        *queues.ROUTES,
        *messages.ROUTES,
        *bindings.ROUTES,
        *vhosts.ROUTES,
        *users.ROUTES,
        *permissions.ROUTES,
        *policies.ROUTES,
        *parameters.ROUTES,
        *limits.ROUTES,
        *shovels.ROUTES,
        *health.ROUTES,
        *login.ROUTES,
        *page_login.ROUTES,
        *watching.ROUTES,
        *node.ROUTES,
        *topics.ROUTES,
        *queue.ROUTES,
        *delayed.ROUTES,
        *browsing.ROUTES,
        *moving.ROUTES,
        *routing.ROUTES,
        *clients.ROUTES,
        *pulsar_client.ROUTES,
        *transactions.ROUTES,
        *republishing.ROUTES,
    )
)

OPEN: Final = frozenset({("POST", "login"), ("GET", "auth"), ("POST", "page/session")})
"""Routes that need no login. ``OPTIONS`` of every path and the ``rabbitmqadmin`` script need none
either."""
