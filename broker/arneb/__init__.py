"""The composition root: configuration, command line, HTTP, metrics, and one nursery.

The rule: this is the only package that knows both frontends; it wires them to the core
and holds no messaging logic of its own.

Its folders are layers; each imports only those above it in this list, and each says in its
``__init__`` what it owns:

* ``logins`` and ``settings``: how users are authenticated, and what the operator has configured;
* ``logs``, ``listening``, ``monitoring``, ``runtime``: what any server process needs;
* ``metrics``, ``http``, ``data``, ``control``: the broker's HTTP APIs and its control socket;
* ``store`` and ``servers``: an open data directory; one broker on it;
* ``clustered``: a node that has brokers for shards;
* ``node``: the process, and the broker or the cluster's member in it;
* ``ctl``, ``doctor``, ``installing``, ``demo``, ``commands``: the commands; ``cli`` finds them.
"""

__version__ = "0.1.0"
