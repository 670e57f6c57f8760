"""The AMQP server: trio tasks that carry out what sessions decide.

Its folders are layers; each imports only what stands above it in this list:

* ``transport``: the bytes of clients;
* ``admission``: who comes in;
* ``connection_events`` and ``context``: what connections tell, and what they share;
* ``operations``: what a session asks for, carried out;
* ``connection``: a socket and a session; ``admitted`` and ``roster``: those who are in;
* ``listener``: ports in, connections out.
"""

from arneb_amqp.server.listener import serve_amqp

__all__ = ["serve_amqp"]
