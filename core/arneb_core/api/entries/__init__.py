"""An entry: where it is in the log, what its header says, and how its body becomes a message."""
