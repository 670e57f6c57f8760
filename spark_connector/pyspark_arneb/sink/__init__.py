"""The way back: rows of Spark as messages of the broker."""
