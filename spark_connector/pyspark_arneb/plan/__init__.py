"""Which stretches of the log a read covers, and how they are shared out; pure."""
