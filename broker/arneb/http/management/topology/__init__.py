"""The topology over HTTP: exchanges, queues and bindings, and messages through them.

The rule: what an AMQP client would be refused is refused here, in the same words.

For queues, ``queue_fields`` makes their documents field by field, ``queue_texts`` keeps the written
documents of lists, and ``queues`` has the routes.
"""
