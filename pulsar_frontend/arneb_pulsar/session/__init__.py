"""What a connection does, as pure state: bytes and events in, bytes and effects out.

Nothing here does I/O, reads a clock or touches the core.

Its folders are layers; each imports only those above it in this list:

* ``errors``, and which code of the protocol each has;
* ``interface``: what a session asks of the server (``effects``), and what is reported (``events``);
* ``client``, ``transitions`` and ``translation``: what the client understands, what may happen in
  which state, and entries of other origins;
* ``fields`` and ``output``: the fields of commands, and what is sent;
* ``schemas``;
* ``consume``, ``produce``, ``topics`` and ``transactions``: what a client does;
* ``connection``: the whole session; the entry point.
"""
