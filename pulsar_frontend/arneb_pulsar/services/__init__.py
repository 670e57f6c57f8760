"""What all connections share: registries, the context that holds them, and services over it.

The rule: a registry knows the core and the registries below it; the context is data and knows the
registries; services take the context as an argument. Connections are known here by protocols only,
so everything that happens to topics, producers and consumers can be tested without a socket.

Its folders are layers; each imports only those above it in this list:

* ``clock``: the time;
* ``clients``: who is connected, what they have attached, and by which right;
* ``namespaces``: which there are, their policies, and who serves them; ``transactions``;
* ``limits``: rates, quotas, and how many clients may attach;
* ``topics``: which there are, their schemas, deduplication and compaction;
* ``context``: all of these as one value;
* ``operations``: what is done to topics with it.
"""
