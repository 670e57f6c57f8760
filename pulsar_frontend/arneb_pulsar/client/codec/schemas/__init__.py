"""Schemas: how values are encoded as bytes, and the definitions that topics keep of them."""
