"""RabbitMQ's management API: one module a noun, over what the broker knows at that instant.

The rule: handlers take a call and give a reply; they know no socket, and every route says who may
use it. Paths are split before they are decoded, so a name may hold anything.

Its folders are layers; each imports only what stands above it in this list:

* ``requests``: calls, replies, and who may use a route;
* ``figures`` and ``lists``: counters, rates, and pages of very many objects;
* ``site``: what handlers may ask of the broker; ``router``: which route a path is;
* ``access``, ``clients``, ``parameters``, ``topology``, ``definitions``, ``node``: one noun a
  module, with its routes; ``page``: what only the management page asks for;
* ``table``, ``answering``, ``streaming``, ``app``: from all routes to an ASGI application.
"""
