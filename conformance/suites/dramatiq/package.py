"""Makes a package of the tests, which import from one another."""
