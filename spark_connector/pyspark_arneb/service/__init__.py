"""The broker's data API, from the connector's side: HTTP, and nothing of the frontends."""
