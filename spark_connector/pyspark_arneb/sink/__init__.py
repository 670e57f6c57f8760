"""The sink: rows of Spark as messages of the broker."""
