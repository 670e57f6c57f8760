"""Several brokers: which of them serves a namespace, and until when its lease lasts."""
