"""The HTTP server: HTTP/1.1 on sockets that are bound already, for ASGI applications.

The rule: whatever a client can make longer or larger has a bound, and no client holds up another.

Read in this order: ``server`` (a port), ``connection`` with its ``states`` (a client), ``asgi``
(what an application sees), then what bounds it: ``room`` (memory), ``pace`` (time), ``refused``.
For applications whose answers are long there are ``long_answers``, ``whole_answers`` and ``pages``;
``prefixed`` serves one below a path.
"""
