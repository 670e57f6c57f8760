"""A connection: how it begins, stays alive and ends, and its channels."""
