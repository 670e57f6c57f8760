"""The HTTP server: HTTP/1.1 on sockets that are already bound, for ASGI applications.

The rule: everything that a client can make longer or larger has a bound, and no client holds up
another.

Read in this order: ``server`` (a port), ``connection`` with its ``states`` (a client), ``senders``
and ``asgi`` (what an application sees), then the bounds: ``room`` (memory), ``pace`` (time),
``refused``. Applications with long answers use ``long_answers``, ``whole_answers`` and ``pages``;
``prefixed`` serves an application below a path.
"""
