"""The data API: blocks, cursors and rows for programs that use the log from other processes.

The rule: it sends stored blocks and accepts rows; whatever the client can do is left to it. The
contract is docs/internals/data-api.md.
"""
