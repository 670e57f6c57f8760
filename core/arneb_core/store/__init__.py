"""The store: one LMDB environment per data directory, and the only package that knows LMDB.

Its folders are layers; each imports only what stands above it in this list, and each says in its
``__init__`` what it owns and in which order to read it:

* ``format``: what is on disk as bytes;
* ``data_file``: LMDB's file, looked at before it is mapped, and the environment open on it;
* ``journal``: the file in front of it, and what it holds that LMDB lacks;
* ``directory``: whose a data directory is, and how a whole one is made, copied or replaced;
* ``reading``: snapshots, and blocks for readers elsewhere;
* ``commit``: how a commit becomes durable;
* ``checking`` and ``salvage``: the fsck, and what is saved where it fails.

On top stand ``environment`` (the :class:`.Store` that a broker has open), ``offline`` (changes
where no broker has) and ``backup``.

Nothing is imported here: readers of blocks that came by another way do without LMDB.
"""
