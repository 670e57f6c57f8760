"""Settings: what an operator may say, read and judged before anything starts.

The rule: whoever serves is handed the frozen value that concerns it; after a start only
``reloading`` reads a file again.

Read in this order: ``table`` (one table of a file as one dataclass), ``config`` (all tables, and
where they come from), then the tables of their own: ``process``, ``cluster`` and ``shards``,
``http_limits``, ``data_limits``, ``watermarks``, ``tls``. ``environment`` and ``rabbitmq`` are two
other ways to say the same; ``described`` and ``shown`` are for people.
"""
