"""The exchanges and bindings of a vhost."""
