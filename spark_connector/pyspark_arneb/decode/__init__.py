"""Stored blocks as Arrow record batches."""
