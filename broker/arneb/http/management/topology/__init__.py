"""What was declared, over HTTP: exchanges, queues and bindings, and messages through them.

The rule: what AMQP refuses is refused here, in the same words.

Of queues, ``queue_fields`` has their documents field by field and ``queue_texts`` keeps what lists
show; ``queues`` has the routes.
"""
