"""The store: one LMDB environment per data directory, and the only package that knows LMDB."""
