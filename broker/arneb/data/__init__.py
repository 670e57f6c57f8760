"""The data API: blocks, cursors and rows for programs that use the log from other processes.

The rule: it sends stored blocks and accepts rows; what the client can do is not done here. The
contract is docs/internals/data-api.md.
"""
