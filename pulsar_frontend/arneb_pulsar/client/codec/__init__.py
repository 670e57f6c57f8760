"""What is done to payloads on their way: schemas, compression, encryption.

The rule: bytes in and bytes out. What a payload says of itself is not believed: sizes are bounded
before anything is made of them.
"""
