"""``arneb client``, and ``arneb-client`` of the distribution without a broker."""
