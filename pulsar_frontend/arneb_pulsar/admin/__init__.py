"""The admin REST API: what each call asks of the broker, without HTTP around it.

The rule: handlers take a request and return a reply, as values; the HTTP server carries both.
Paths, documents and texts are those of Pulsar's ``/admin/v2`` and ``/lookup/v2``.

Its folders are layers; each imports only those above it in this list:

* ``calls``: requests, replies and errors, routes, and who may make a call; ``documents``: what is
  shown, in Pulsar's fields;
* ``namespaces``;
* ``topics``;
* ``subscriptions``; ``brokers``, with clusters and tenants;
* ``policies``: what operators set; ``transactions``;
* ``api``: every route, and how a call is answered.
"""
