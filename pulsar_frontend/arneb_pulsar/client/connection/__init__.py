"""One connection to a broker: a pure machine, the shell that carries it out, and the pool."""
