"""Mutants of Spark's streaming queries and sinks.

The rule: as in :mod:`tests.mutants.table`.
"""

from typing import Final

from tests.mutants.table import Mutant

STREAM: Final = "spark_connector/pyspark_arneb/stream/"
SINK: Final = "spark_connector/pyspark_arneb/sink/"
QUERIES: Final = ("tests/spark_connector/stream/test_queries.py",)
PLACES: Final = ("tests/spark_connector/stream/test_starting_places.py",)
COUNTED: Final = ("tests/spark_connector/stream/test_counted.py",)
ADMISSION: Final = ("tests/spark_connector/stream/test_admission.py",)
ONCE: Final = ("tests/spark_connector/sink/test_exactly_once.py",)
ROWS: Final = ("tests/spark_connector/sink/test_rows.py",)

LOADING: Final = (
    "tests/spark_connector/stream/test_stream_in_spark.py::"
    "test_bad_options_of_a_stream_are_refused_in_one_line_when_it_is_loaded"
)

STREAM_MUTANTS: Final = (
    Mutant(
        "a damaged block is a row of every part of a read that touches it",
        "spark_connector/pyspark_arneb/decode/reading.py",
        "                case OnCorrupt.RAW if not span.goes_on or found.start >= span.first:\n",
        "                case OnCorrupt.RAW:\n",
        ("tests/spark_connector/test_damage.py",),
    ),
    Mutant(
        "rows for more topics than a broker accepts in one body are refused",
        SINK + "rows.py",
        "        body = _body(used, fewer) if len(fewer) <= TARGETS_MAX else None\n",
        "        body = _body(used, fewer)\n",
        ROWS,
    ),
    Mutant(
        "properties that are longer as JSON make a body that no broker accepts",
        SINK + "rows.py",
        "        if body is not None and (rows == 1 or len(body.data) <= BODY_BYTES_MAX):\n",
        "        if body is not None:\n",
        ROWS,
    ),
    Mutant(
        "bytes in a header are written as their text form",
        SINK + "rows.py",
        "        if kind != PLAIN:\n            types[name] = kind\n",
        "",
        ("tests/spark_connector/sink/test_sink_options.py",),
    ),
    Mutant(
        "a body with half a character ends a query",
        "spark_connector/pyspark_arneb/values/forms.py",
        "        return printable(found) if isinstance(found, str) else json.dumps(found)\n",
        "        return found if isinstance(found, str) else json.dumps(found)\n",
        ("tests/spark_connector/test_values.py",),
    ),
    Mutant(
        "nobody writes down where what was trimmed ended",
        "core/arneb_core/log/durable_log.py",
        "        if end is not None:\n",
        "        if False:\n",
        ("tests/core/engine/trimming/test_last_ledger.py",),
    ),
    Mutant(
        "the end of what an older version left behind counts",
        "core/arneb_core/store/reading/extents.py",
        " and record.floor == floor else None\n",
        " else None\n",
        ("tests/core/engine/trimming/test_last_ledger.py",),
    ),
    Mutant(
        "any place in a trimmed ledger is its end",
        "core/arneb_core/store/reading/extents.py",
        "        return position == end or entry_of(position) == 0\n",
        "        return True\n",
        ("tests/spark_connector/test_planning.py",),
    ),
    Mutant(
        "a query acknowledges what it has only planned",
        STREAM + "planner.py",
        "            done = acknowledged_by(start, self._extents)\n",
        "            done = acknowledged_by(end, self._extents)\n",
        QUERIES,
    ),
    Mutant(
        "a stream forgets positions in startingOffsets that nobody reads",
        STREAM + "planner.py",
        '            check_named("startingOffsets", self._options.read.start, extents)\n',
        "",
        PLACES,
    ),
    Mutant(
        "a stream silently begins where the log has nothing any more",
        STREAM + "planner.py",
        "            read.lose(loss)\n        return begin_in",
        "            pass\n        return begin_in",
        PLACES,
    ),
    Mutant(
        "a position beyond the end of its ledger is taken for one of the log",
        "spark_connector/pyspark_arneb/plan/ranges.py",
        "    return bound > extent.end and bound != position_at(ledger_of(extent.end) + 1, 0)\n",
        "    return bound > position_at(ledger_of(extent.end) + 1, 0)\n",
        ("tests/spark_connector/test_planning.py",),
    ),
    Mutant(
        "a position beyond the end of a ledger is taken for the beginning of the next",
        "spark_connector/pyspark_arneb/plan/ranges.py",
        "        if ended is not None:\n            why",
        "        if False:\n            why",
        ("tests/spark_connector/test_planning.py",),
    ),
    Mutant(
        "the end of the first batch does not say where it began",
        STREAM + "continuity.py",
        "        if self.is_known and not initial:\n",
        "        if self.is_known:\n",
        QUERIES,
    ),
    Mutant(
        "the first batch runs with the short lease of an unknown cursor",
        STREAM + "planner.py",
        "            known = end is not start or (start.cursor == name and not start.initial)\n",
        "            known = start.cursor == name and not start.initial\n",
        QUERIES,
    ),
    Mutant(
        "trimmed entries are silently skipped",
        STREAM + "continuity.py",
        "    if offset.next < extent.first and not _all_was_read(offset, extent):\n",
        "    if False:\n",
        QUERIES,
    ),
    Mutant(
        "a trimmed end of a read is called a loss",
        STREAM + "continuity.py",
        "    if offset.next < extent.first and not _all_was_read(offset, extent):\n",
        "    if offset.next < extent.first:\n",
        QUERIES,
    ),
    Mutant(
        "a topic that was created again is taken for the old one",
        STREAM + "continuity.py",
        "    if offset.topic_id != extent.topic_id:\n",
        "    if False:\n",
        QUERIES,
    ),
    Mutant(
        "a topic whose share is less than an entry is never read",
        STREAM + "backlog.py",
        "            end = Position(ledger.first + max(1, entries))\n",
        "            end = Position(ledger.first + entries)\n",
        ADMISSION,
    ),
    Mutant(
        "what a broker sent before it had the whole body is not read",
        "spark_connector/pyspark_arneb/service/connection.py",
        "            return connection.getresponse()\n        except",
        "            raise error\n        except",
        ("tests/spark_connector/test_service_connection.py",),
    ),
    Mutant(
        "another batch write of the same name loses its first pieces",
        SINK + "options.py",
        '    elif not is_stream and "idempotenceVersion" not in options:\n',
        "    elif False:\n",
        ("tests/spark_connector/sink/test_sink_options.py",),
    ),
    Mutant(
        "a property of any type is accepted, and fails when it is sent",
        SINK + "columns.py",
        "        case [StringType(), value] if isinstance(value, _PROPERTY):\n",
        "        case [StringType(), _]:\n",
        ("tests/spark_connector/sink/test_sink_options.py",),
    ),
    Mutant(
        "what has been counted of an open ledger is counted again",
        "spark_connector/pyspark_arneb/log/counted.py",
        "        self._counted[topic_id] = position, messages\n",
        "        self._counted[topic_id] = first, 0\n",
        COUNTED,
    ),
    Mutant(
        "an estimate for an open ledger is taken for a count",
        "spark_connector/pyspark_arneb/log/counted.py",
        "        return [self._true(extent) for extent in self._source.extents(topics)]\n",
        "        return list(self._source.extents(topics))\n",
        COUNTED,
    ),
    Mutant(
        "a broker does not report what its open ledgers hold",
        "core/arneb_core/engine/topics/stored_reading.py",
        "            counted += map(self._counted, piece)\n",
        "            counted += piece\n",
        ("tests/broker/data/test_reading.py",),
    ),
    Mutant(
        "the open ledgers of ten thousand topics are counted in one turn",
        "core/arneb_core/engine/topics/stored_reading.py",
        "                await trio.lowlevel.checkpoint()\n",
        "                pass\n",
        ("tests/core/engine/topics/test_stored_blocks.py",),
    ),
    Mutant(
        "a stream that begins in the future reads what comes before",
        STREAM + "planner.py",
        "            if time_ms > self._now_s() * MS_PER_S:\n",
        "            if False:\n",
        PLACES,
    ),
    Mutant(
        "times of single topics select no rows",
        "spark_connector/pyspark_arneb/decode/reading.py",
        "    times = options.starting_times.of(span.topic), options.ending_times.of(span.topic)\n",
        "    times = options.starting_times.default, options.ending_times.default\n",
        ("tests/spark_connector/test_reading.py",),
    ),
    Mutant(
        "a batch read from the end is an empty one",
        STREAM + "options.py",
        "    if LATEST in read.start.bounds() and read.starting_times == NO_TIMES:\n",
        "    if False:\n",
        ("tests/spark_connector/test_options.py",),
    ),
    Mutant(
        "rows not in a list with null are all the others",
        "spark_connector/pyspark_arneb/plan/filters.py",
        "value is None or (isinstance(pushed, In) and None in value):\n",
        "value is None:\n",
        ("tests/spark_connector/test_reading.py",),
    ),
    Mutant(
        "of a header that occurs twice the last is kept",
        SINK + "rows.py",
        "        if name in found:\n",
        "        if False:\n",
        ROWS,
    ),
    Mutant(
        "an event before 1970 has no time",
        SINK + "rows.py",
        'if name == "event_time" and earliest < 0:',
        "if False:",
        ROWS,
    ),
    Mutant(
        "a task's attempts share a stage",
        SINK + "writers.py",
        "        self._name = uuid4().hex\n",
        '        self._name = "stage"\n',
        ONCE,
    ),
    Mutant(
        "a batch that is repeated is another batch",
        SINK + "writers.py",
        "self._options, query, batchId, stages)\n",
        "self._options, uuid4().hex, batchId, stages)\n",
        ONCE,
    ),
    Mutant(
        "a null value becomes an empty one",
        SINK + "rows.py",
        "    lengths = pc.fill_null(pc.binary_length(column), NULL)\n",
        "    lengths = pc.fill_null(pc.binary_length(column), 0)\n",
        ROWS,
    ),
    Mutant(
        "what Kafka calls the latest is the earliest",
        "spark_connector/pyspark_arneb/offsets.py",
        "{-2: EARLIEST, -1: LATEST}",
        "{-2: EARLIEST, -1: EARLIEST}",
        ("tests/spark_connector/test_options.py",),
    ),
    Mutant(
        "errors in a stream's options are raised by its reader, under an error of Spark's",
        "spark_connector/pyspark_arneb/stream/options.py",
        "        stream_options(given)\n",
        "        pass\n",
        (LOADING,),
    ),
    Mutant(
        "a topic without partitions has no partition 0 to assign",
        "spark_connector/pyspark_arneb/log/topics.py",
        "            elif not number and name in present:\n",
        "            elif False:\n",
        ("tests/spark_connector/test_topics.py",),
    ),
    Mutant(
        "a misspelt queue is answered with the names of topics",
        "spark_connector/pyspark_arneb/log/topics.py",
        "sorted(unquote(name) for",
        "sorted(name for",
        ("tests/spark_connector/test_reading.py",),
    ),
    Mutant(
        "rows of a record that was renamed are null",
        "spark_connector/pyspark_arneb/values/forms.py",
        'latest | {"aliases": sorted(names | set(latest.get("aliases", ())))}',
        "latest",
        ("tests/spark_connector/test_values.py",),
    ),
)
