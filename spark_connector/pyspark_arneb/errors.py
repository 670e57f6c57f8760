"""Errors that stop a read: each says what and where in one line, and which option decides it."""


class DataLossError(RuntimeError):
    """The log lacks what a read or a query should have read: entries, or a topic that was deleted,
    recreated or restored."""

    def __init__(self, loss: object) -> None:
        super().__init__(
            f'data loss: {loss}; to read what there is, set the option "failOnDataLoss" to false, '
            "and to keep messages for Spark, give the topic a retention or a subscription that "
            "has not yet acknowledged them"
        )
        self.loss = loss


class CorruptionError(RuntimeError):
    """Entries are in the log but can no longer be read."""

    def __init__(self, damage: object) -> None:
        super().__init__(
            f'{damage}; to read all the others, set the option "onCorrupt" to skip, or to raw to '
            "have what is stored as a row"
        )
        self.damage = damage
