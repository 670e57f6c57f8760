"""The sealed tier in an object store, by a local server that speaks S3."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from lake_kit import ORDERS, log_rows, place, write_ledgers

from pyspark_arneb.lake import sealing
from pyspark_arneb.lake.erasure import ErasedKeys, erase, forget
from pyspark_arneb.lake.merging import merge
from pyspark_arneb.lake.offload import Offload, OffloadOptions
from pyspark_arneb.lake.query import LakeQuery
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.lake.trim_guard import NoGuard
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.environment import close_environments
from pyspark_arneb.log.topics import TopicSelection
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.target import LakeError, Target, tables_in

if not all(map(find_spec, ("moto", "boto3"))):
    pytest.skip("moto is not installed", allow_module_level=True)


EVERYTHING = TopicSelection(pattern=".*")


SERVER = """
import sys
import boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
where = dict(endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
client = boto3.client("s3", aws_access_key_id="t", aws_secret_access_key="t", **where)
client.create_bucket(Bucket="lake")
print(where["endpoint_url"], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """A server with the bucket ``lake``, as options of the object store; in a process of its own,
    for delta-rs keeps the interpreter to itself while it waits for an answer."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        yield {
            "AWS_ENDPOINT_URL": server.stdout.readline().strip(),
            "AWS_ACCESS_KEY_ID": "t",
            "AWS_SECRET_ACCESS_KEY": "t",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        server.communicate()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    write_ledgers(tmp_path / "log", 9, entries=6)
    yield tmp_path / "log"
    close_environments()


def offload(log: Path, target: Target, **options: bool) -> int:
    work = Offload(Directory(str(log)), target, EVERYTHING, NoGuard(), OffloadOptions(**options))
    return work.round().ledgers


def test_a_bucket_holds_the_table_as_a_directory_does(
    log: Path, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.of("s3://lake/whole", store)
    monkeypatch.setattr(sealing, "FILE_BYTES", 1)
    assert offload(log, target, merge=False) == 9
    assert offload(log, target) == 0
    assert tables_in(target) == [ORDERS]
    table = SealedTable.open(target, ORDERS)
    assert table is not None
    assert len(table.files()) == 9
    assert merge(table).before == 9
    expected = log_rows(log, through=9)
    assert sorted(table.dataset().to_table().to_pylist(), key=place) == expected
    options = ReadOptions(Directory(str(log)), EVERYTHING)
    with LakeQuery(options, target) as query:
        answer = query.run("select count(*) n, max(octet_length(value)) m from orders")
        assert [batch.to_pylist() for batch in answer.batches] == [[{"n": 57, "m": 2}]]
    erased = ErasedKeys.from_now([b"key-1"], 1 << 42)
    erased.write_down(table.target)
    assert erase(table, erased) == 18
    assert ErasedKeys.of(table.target) == erased
    forget(table)
    kept = [row for row in expected if row["key"] != b"key-1"]
    assert sorted(table.dataset().to_table().to_pylist(), key=place) == kept
    assert sum(path.endswith(".parquet") and "/_" not in path for path in target.files()) == 1


def test_of_two_writers_to_a_bucket_one_brings_a_ledger(
    log: Path, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.of("s3://lake/two", store)
    written = sealing.write_data_file

    def write_and_be_second(*arguments: object) -> object:
        monkeypatch.setattr(sealing, "write_data_file", written)
        made = written(*arguments)  # type: ignore[arg-type]
        assert offload(log, target) == 9
        return made

    monkeypatch.setattr(sealing, "write_data_file", write_and_be_second)
    assert offload(log, target) == 0
    table = SealedTable.open(target, ORDERS)
    assert table is not None
    assert table.dataset().count_rows() == 54


def test_a_bucket_that_is_not_there_is_one_line(log: Path, store: dict[str, str]) -> None:
    with pytest.raises(LakeError) as refused:
        offload(log, Target.of("s3://nothing/here", store))
    assert "\n" not in str(refused.value)
    assert "s3://nothing/here" in str(refused.value)
