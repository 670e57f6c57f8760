"""What the connector's tests leave open is closed, and nothing else."""

import gc
import socket

from tests.spark_connector.conftest import closing_what_is_left


def test_what_the_tests_opened_is_closed_and_nothing_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as older:
        with closing_what_is_left():
            left = socket.create_server(("127.0.0.1", 0))
            file = left.makefile("rb")
        assert left.fileno() < 0 <= older.fileno()
        del file, left
        gc.collect()
