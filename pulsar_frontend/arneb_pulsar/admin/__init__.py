"""The admin REST API: what each call asks of the broker, without HTTP around it.

The rule: handlers take a request value and return an answer value; whoever speaks HTTP carries
both. Paths, documents and texts are those of Pulsar's ``/admin/v2`` and ``/lookup/v2``.
"""
