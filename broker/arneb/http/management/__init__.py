"""RabbitMQ's management API: one module per noun, over the broker's current state.

The rule: handlers take a call and return a reply; they know no socket, and every route says who may
use it. Paths are split before they are decoded, so a name may contain any character.

Its folders are layers; each imports only those above it in this list:

* ``requests``: calls, replies, and who may use a route;
* ``figures`` and ``lists``: counters, rates, and pages of long lists;
* ``site``: what handlers may ask of the broker; ``router``: finds the route of a path;
* ``access``, ``clients``, ``parameters``, ``topology``, ``definitions``, ``node``: one noun per
  module, with its routes; ``page``: requests that only the management page makes;
* ``table``, ``answering``, ``streaming``, ``app``: from all routes to an ASGI application.
"""
