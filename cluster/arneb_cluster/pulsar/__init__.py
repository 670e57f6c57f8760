"""What of Pulsar a shard uses: its log topic, and the subscriptions by which nodes are chosen."""
