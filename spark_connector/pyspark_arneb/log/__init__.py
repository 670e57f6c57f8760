"""Where the stored blocks come from: the names of topics, and the ways to their log."""
