"""What the core offers its frontends, and what everybody needs who uses it.

The rule: frontends import this folder of the core and no other, and it imports nothing of the
core that is not in it.
"""
