"""The client side of the broker's data API, over HTTP."""
