"""The parts of Pulsar that a shard uses: its log topic, and the subscriptions that elect a
leader."""
