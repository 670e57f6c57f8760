"""Tests of the connector. A package, for pytest to hold their Spark session no longer than them."""
