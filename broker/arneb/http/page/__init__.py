"""The management page: files that a browser gets, and nothing that is made for it.

The rule: all that moves on it comes from the management API.
"""
