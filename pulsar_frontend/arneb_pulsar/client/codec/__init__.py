"""Transformations of payloads: schemas, compression, encryption.

The rule: bytes in and bytes out. A payload's claims about itself are not trusted: sizes are checked
before anything is allocated.
"""
