"""Access to the stored blocks: the names of topics, and the ways to their logs."""
