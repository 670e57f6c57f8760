"""The commands of ``arneb``: one module each, with one click command of the same name."""
