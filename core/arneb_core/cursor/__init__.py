"""What a subscription has acknowledged.

The rule: nothing here knows consumers, or when anything reaches the disk.
"""
