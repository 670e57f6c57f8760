"""A client's connection below its protocol: who connects, how it is accepted, and its streams."""
