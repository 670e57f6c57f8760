"""The rows of a span, from any source of blocks.

The rule: this is the only way from blocks to rows, for batch, stream and export alike; the options
decide here what happens on loss and damage.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from arneb_core.api.entries.codec import codecs
from pyspark_arneb.decode.chunks import Damage, published_between, read_chunks
from pyspark_arneb.decode.decoder import Decoder
from pyspark_arneb.decode.parts import Assembler
from pyspark_arneb.errors import CorruptionError
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.options import OnCorrupt, ReadOptions
from pyspark_arneb.plan.ranges import Loss, Span
from pyspark_arneb.schema import Column

log = logging.getLogger(__name__)


def read_batches(
    source: BlockSource,
    span: Span,
    columns: Sequence[Column],
    options: ReadOptions,
    instead: Callable[[Loss], Iterator[pa.RecordBatch]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of ``span``, in the log's order.

    ``instead`` yields the rows of entries that are no longer in the log, or raises; without it the
    options decide. Raises :class:`.DataLossError` and :class:`CorruptionError` depending on the
    options, :class:`arneb_core.api.errors.StoreUnusable`, and :class:`LookupError` when the codec
    of an entry's origin is not installed.
    """
    decoder = Decoder(span, columns, options.value_form)
    assembler = Assembler(source, span, codecs())

    times = options.starting_times.of(span.topic), options.ending_times.of(span.topic)
    lost: list[Loss] = []

    def lose(loss: Loss) -> None:
        if instead is None:
            options.lose(loss)
        else:
            lost.append(loss)

    for found in read_chunks(source, span, lose):
        while instead is not None and lost:
            yield from instead(lost.pop(0))
        if isinstance(found, Damage):
            match options.on_corrupt:
                case OnCorrupt.FAIL:
                    raise CorruptionError(found)
                case OnCorrupt.SKIP:
                    log.warning("skipping damage: %s", found)
                case OnCorrupt.RAW if not span.goes_on or found.start >= span.first:
                    yield decoder.damaged(found)
            continue
        chunk = assembler.whole(found)
        if chunk is not None and times != (None, None):
            chunk = published_between(chunk, *times)
        if chunk is not None:
            yield from decoder.batches(chunk)
    if instead is not None:
        for loss in lost:
            yield from instead(loss)
