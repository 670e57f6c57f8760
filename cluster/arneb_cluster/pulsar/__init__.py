"""The parts of Pulsar a shard uses: its log topic, and the subscriptions that elect nodes."""
