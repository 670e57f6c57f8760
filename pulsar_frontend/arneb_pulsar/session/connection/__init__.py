"""Connection: one client's connection, from its handshake to its end.

The rule: time and bytes are arguments; the client's requests are carried out in their order.

Read in this order: ``connection`` (the entry point), ``authentication`` (who the client is),
``rules`` (what it may ask for), ``keep_alive`` (whether it is still there).
"""
