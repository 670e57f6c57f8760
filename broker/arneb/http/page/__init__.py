"""The management page: static files for a browser.

The rule: all data on the page comes from the management API.
"""
