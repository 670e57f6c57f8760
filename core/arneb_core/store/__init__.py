"""The store: one LMDB environment per data directory, and the only package that knows LMDB.

Its folders are layers; each imports only those above it in this list, and its ``__init__`` says
what it owns and in which order to read it:

* ``format``: what is on disk, as bytes;
* ``data_file``: LMDB's file, checked before it is mapped, and the environment open on it;
* ``journal``: the file in front of LMDB, and the commits in it that LMDB lacks;
* ``directory``: who owns a data directory, and how a whole one is made, copied or replaced;
* ``reading``: snapshots, and blocks for readers in other processes;
* ``commit``: how a commit becomes durable;
* ``checking`` and ``salvage``: the fsck, and what can be saved of a damaged store.

Above them are ``environment`` (the :class:`.Store` that a broker has open), ``offline_metadata``
(changes while no broker has it open) and ``backup``.

Nothing is imported here, so that programs which read blocks from elsewhere do not need LMDB.
"""
