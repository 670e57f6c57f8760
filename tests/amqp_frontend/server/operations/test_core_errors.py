"""Every error of the core is translated to an answer in AMQP."""

import pytest

from arneb_amqp.errors import ChannelException
from arneb_amqp.server.operations.core_errors import REPLY_CODES, in_amqp
from arneb_core.api import errors as core_errors
from arneb_core.api.errors import CoreError


def leaves(kind: type[CoreError]) -> set[type[CoreError]]:
    below = kind.__subclasses__()
    return {kind} if not below else set().union(*map(leaves, below))


def test_the_table_is_complete() -> None:
    defined = {
        each
        for each in vars(core_errors).values()
        if isinstance(each, type) and issubclass(each, CoreError)
    }
    assert leaves(CoreError) & defined <= REPLY_CODES.keys()
    assert REPLY_CODES.keys() <= defined


@pytest.mark.parametrize("kind", REPLY_CODES)
def test_the_text_is_that_of_the_core(kind: type[CoreError]) -> None:
    error = in_amqp(kind("what happened"))
    assert error.reply_code is REPLY_CODES[kind]
    assert error.reply_text.endswith("what happened")


def test_a_full_disk_closes_only_the_channel() -> None:
    assert isinstance(in_amqp(core_errors.StoreFull("full")), ChannelException)
