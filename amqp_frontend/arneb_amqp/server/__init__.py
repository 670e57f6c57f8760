"""The AMQP server: trio tasks that carry out what sessions decide.

Its folders are layers; each imports only those above it in this list:

* ``transport``: the bytes of clients;
* ``admission``: who may connect;
* ``connection_events`` and ``context``: what connections report, and what they share;
* ``operations``: the effects of sessions, carried out;
* ``connection``: a socket and a session; ``admitted`` and ``roster``: the clients connected now;
* ``listener``: accepts clients and makes their connections.
"""

from arneb_amqp.server.listener import serve_amqp

__all__ = ["serve_amqp"]
