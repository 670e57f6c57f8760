"""Publishing on a channel: runs, returns and confirms."""
