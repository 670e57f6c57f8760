"""Which ranges of the log a read covers, and how they are divided; pure."""
