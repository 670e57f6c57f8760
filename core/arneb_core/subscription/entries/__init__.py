"""Where a subscription's entries are, and how they get there: ready, held back, in flight, done.

The rule: an entry is in one place only. Each part keeps some of the places and changes them at
once, so that nothing is lost in between.
"""
