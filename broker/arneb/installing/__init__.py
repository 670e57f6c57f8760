"""What a new installation begins with: a configuration file and a systemd unit."""
