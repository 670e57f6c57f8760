"""What the guide's page on the client shows runs as it stands, and prints what the page says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.pulsar_client.conftest import Broker

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/guide/pulsar-client.md"
PROGRAMS: Final = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$",
    PAGE.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
URL: Final = "pulsar://localhost:6650"
RUN: Final = "trio.run(main)"


@pytest.mark.parametrize(("program", "printed"), PROGRAMS, ids=range(len(PROGRAMS)))
@pytest.mark.in_peace("topics of their own")
def test_the_programs_run_as_they_stand(broker: Broker, program: str, printed: str) -> None:
    code = program.replace(URL, broker.pulsar_url)
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, run.stdout) == (0, printed), run.stderr


@pytest.mark.in_peace("topics of their own")
def test_they_run_with_asyncio_as_well(broker: Broker) -> None:
    program, printed = PROGRAMS[0]
    assert RUN in program
    code = program.replace(URL, broker.pulsar_url).replace("orders", "orders-again")
    code = code.replace(RUN, "import asyncio; asyncio.run(main())")
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, run.stdout) == (0, printed.replace("orders", "orders-again")), (
        run.stderr
    )
