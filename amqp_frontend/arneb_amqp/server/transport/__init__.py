"""Transport: the bytes of clients, over TCP and TLS, and when they are read and written.

The rule: nothing here knows AMQP's methods, and no client holds up another.

Read in this order: ``accepting`` and ``remote`` (who connects), ``link``, ``secured_link`` and
``tls`` (a socket), ``reading``, ``polling`` and ``read_ahead`` (how much of a client is read),
``flusher`` (what is written), ``timers``.
"""
