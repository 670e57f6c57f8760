"""A subscription and its consumers as a frontend sees them: requests, deliveries and limits."""
