"""Documents: what the admin API shows of topics, subscriptions and messages, in Pulsar's fields.

The rule: they are made from what the core and the services know, and change nothing.

Read in this order: ``topic_documents``, ``subscription_documents``, ``partition_sums``,
``internal_documents`` (ledgers and cursors), ``messages``.
"""
