"""What all connections share: registries, the context that holds them, and services over it.

The rule: a registry knows the core and the registries below it; the context is data and knows the
registries; services take the context as an argument. Connections are known here by protocols only,
so everything that happens to topics, producers and consumers can be tested without a socket.
"""
