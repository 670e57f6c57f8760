"""The HTTP ports: RabbitMQ's management API and its page, Pulsar's admin API, metrics and our own.

The rule: it reads ``statistics()`` and nothing deeper, so that every figure shown here is one that
the rest of the program uses too.

Its folders are layers; each imports only those above it in this list:

* ``server``: HTTP/1.1 on a socket, for ASGI applications;
* ``access`` and ``routing``: who may ask, and which node answers;
* ``management`` and ``page``: RabbitMQ's API, and the files of the page;
* ``metrics``: pages for Prometheus;
* ``api``: Arneb's own paths; ``shards``: answers about all shards of a cluster.
"""
