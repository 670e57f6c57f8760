"""Operations: what is done to topics with the whole broker context.

The rule: a change is made durable first; then connected clients are notified.

Read in this order: ``topic_access`` (who may open what), ``topic_lifecycle`` (how topics end),
``policy_enforcer`` (what is done to them from time to time).
"""
