"""What the guide's page on the client shows is played as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pulsar_client.conftest import Broker

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/client.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SAID = (
    "rabbits b'Watership Down' {'year': '1972'}",
    "messages_stored=10000",
    "Book(title='Watership Down', year=1972)",
    "9.99",
)


def test_every_snippet_is_played() -> None:
    assert len(SNIPPETS) == len(SAID)


@pytest.mark.parametrize("number", range(len(SAID)))
@pytest.mark.in_peace("topics of their own")
def test_a_snippet_does_what_is_said_of_it(broker: Broker, number: int) -> None:
    program = SNIPPETS[number].replace("pulsar://127.0.0.1:6650", broker.pulsar_url)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert SAID[number] in done.stdout
