"""A channel: its methods, and the declarations made on it."""
