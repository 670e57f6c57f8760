"""Settings: what an operator can configure, read and checked before anything starts.

The rule: each server is given the frozen values that concern it; after a start only ``reloading``
reads a file again.

Read in this order: ``table`` (one table of a file as one dataclass), ``config`` (all tables, and
where they come from), then the tables with a module of their own: ``process``, ``cluster`` and
``shards``, ``http_limits``, ``data_limits``, ``watermarks``, ``tls``. ``environment`` and
``rabbitmq`` are two other sources of the same settings; ``described`` and ``shown`` present them to
people.
"""
