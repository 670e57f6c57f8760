"""The composition root: configuration, command line, HTTP, metrics, and one nursery.

The rule: this is the only package that knows both frontends; it wires them to the core
and holds no messaging logic of its own.

Its folders are layers; each imports only what stands above it in this list, and each says in its
``__init__`` what it owns:

* ``logins`` and ``settings``: who somebody is, and what the operator wants;
* ``logs``, ``listening``, ``monitoring``, ``runtime``: what a process needs, whatever it serves;
* ``metrics``, ``http``, ``data``, ``control``: what is answered, and by which way in;
* ``store`` and ``servers``: a data directory, opened; one broker on it;
* ``clustered``: a node that has brokers for shards;
* ``node``: the process, and the broker or the cluster's member in it;
* ``ctl``, ``doctor``, ``installing``, ``demo``, ``commands``: what people call; ``cli`` finds it.
"""

__version__ = "0.1.0"
