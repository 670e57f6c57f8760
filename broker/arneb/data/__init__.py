"""The data API: blocks, cursors and rows for those who work with the log from elsewhere.

The rule: it hands out what is stored and takes in rows; what can be done elsewhere is not done
here. The contract is docs/internals/data-api.md.
"""
