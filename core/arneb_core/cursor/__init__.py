"""What a subscription has acknowledged.

The rule: nothing here knows of consumers, nor when anything reaches the disk.
"""
