"""What stops a read: each says what and where in one line, and which option decides it."""

from pyspark_arneb.plan.ranges import Loss


class DataLossError(RuntimeError):
    """Entries that the read was to cover are not in the log."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(
            f"the log no longer has {loss}, which this read was to cover; to read what there is, "
            'set the option "failOnDataLoss" to false, and to keep messages for Spark, give the '
            "topic a retention or a subscription that has not yet acknowledged them"
        )
        self.loss = loss


class CorruptionError(RuntimeError):
    """Entries are in the log and cannot be read any more."""

    def __init__(self, damage: object) -> None:
        super().__init__(
            f'{damage}; to read all the others, set the option "onCorrupt" to skip, or to raw to '
            "have what is stored as a row"
        )
        self.damage = damage
