"""What a consumer or producer remembers between two events, each part by itself.

The rule: time comes in as ``now`` and what is to be done goes out as a value; a tracker knows
neither sockets nor tasks, and serves one consumer or producer of one topic.
"""
