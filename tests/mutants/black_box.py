"""Black-box scenarios: which of the real clients' scenarios must notice which mutant.

The rule: the scenarios know nothing of the code. Like a stranger, they are only given a port. There
is one scenario per mutant, where one is enough.
"""

from collections.abc import Mapping
from typing import Final

PULSAR: Final = "conformance/pulsar/"
ACKNOWLEDGE: Final = PULSAR + "test_acknowledge.py::"
SUBSCRIPTIONS: Final = PULSAR + "test_subscriptions.py::"
AMQP: Final = "conformance/amqp/"
CONSUME: Final = AMQP + "test_consume.py::"
FAULTS: Final = "tests/crash/test_faulty_store.py::"

SCENARIOS: Final[Mapping[str, tuple[str, ...]]] = {
    # Pulsar
    "Key_Shared is round robin": (
        PULSAR + "test_key_shared.py::test_every_key_goes_to_one_consumer_in_order",
    ),
    "exclusive not enforced": (SUBSCRIPTIONS + "test_an_exclusive_subscription_has_one_consumer",),
    "type mismatch allowed": (
        SUBSCRIPTIONS + "test_the_first_consumer_sets_the_type_until_the_last_leaves",
    ),
    "permits ignored": (
        PULSAR + "test_produce_consume.py::test_no_more_comes_than_the_receiver_queue_holds",
        PULSAR + "test_limits.py::test_no_more_comes_than_was_asked_for",
    ),
    "unacked messages of a leaving consumer are lost": (
        ACKNOWLEDGE + "test_a_leaving_consumers_messages_go_to_the_others_uncounted",
    ),
    "seek keeps old acks": (
        SUBSCRIPTIONS + "test_seeking_brings_back_what_was_acknowledged_alone",
    ),
    "a seek keeps what was acknowledged alone": (
        SUBSCRIPTIONS + "test_seeking_brings_back_what_was_acknowledged_alone",
    ),
    "a seek keeps what was returned": (
        SUBSCRIPTIONS + "test_seeking_brings_back_what_was_acknowledged_alone",
    ),
    "the checksum of a published message is not checked": (PULSAR + "test_damage.py",),
    "ack set ignored": (ACKNOWLEDGE + "test_only_what_is_left_of_a_batch_comes_again",),
    "a redelivered batch does not say what is left of it": (
        ACKNOWLEDGE + "test_only_what_is_left_of_a_batch_comes_again",
    ),
    "an ack of one message of a batch takes the batch": (
        ACKNOWLEDGE + "test_only_what_is_left_of_a_batch_comes_again",
    ),
    "a duplicate is stored again": (
        PULSAR + "test_deduplication.py::test_a_number_is_stored_once",
    ),
    "latest is earliest": (
        PULSAR + "test_produce_consume.py::test_a_new_subscription_starts_at_the_end_unless_told",
    ),
    "individual acks are ignored": (
        ACKNOWLEDGE + "test_what_is_not_acknowledged_comes_again_in_order",
    ),
    "cumulative acks are ignored": (ACKNOWLEDGE + "test_a_cumulative_ack_takes_all_before_it",),
    "delayed entries are delivered at once": (
        PULSAR + "test_delayed.py::test_a_message_comes_at_its_time_and_not_before",
    ),
    "a consumer of the compacted topic reads everything": (
        PULSAR + "test_compaction.py::test_the_last_of_each_key_stays",
    ),
    "every producer shares its topic": (
        PULSAR + "test_access_modes.py::test_an_exclusive_producer_is_alone",
    ),
    "the last message id is off by one": (
        SUBSCRIPTIONS + "test_the_last_message_id_is_that_of_the_last_receipt",
    ),
    "returned messages are redelivered in reverse order": (
        ACKNOWLEDGE + "test_redelivery_of_all_on_a_shared_subscription_counts",
    ),
    "redelivery count always 0": (
        ACKNOWLEDGE + "test_a_negative_ack_brings_the_message_again_and_counts",
    ),
    "a subscription is deleted with its last consumer": (
        PULSAR + "test_produce_consume.py::test_a_subscription_goes_on_where_it_was_left",
    ),
    "every message of a shared subscription is delivered twice": (
        ACKNOWLEDGE + "test_shared_consumers_get_each_message_once",
    ),
    # AMQP
    "confirm before fsync": (
        FAULTS + "test_no_confirm_while_the_disk_fails_and_confirms_when_it_is_whole",
    ),
    "an ack of many leaves out the last": (CONSUME + "test_a_multiple_ack_takes_every_older_one",),
    "an ack of many takes one too many": (CONSUME + "test_a_multiple_ack_takes_every_older_one",),
    "prefetch ignored": (CONSUME + "test_a_consumer_holds_no_more_than_its_prefetch",),
    "requeue at the tail": (CONSUME + "test_a_requeued_message_returns_to_its_place",),
    "a return comes behind its confirm": (
        AMQP + "test_publish.py::test_on_the_wire_a_return_stands_before_its_confirm",
    ),
    "x-death does not count": (
        AMQP + "test_dead_letters.py::test_going_round_counts_and_a_reject_lets_it_go_on",
    ),
    "the last message expires instead of the first": (
        AMQP + "test_dead_letters.py::test_the_front_expires_and_what_came_with_it_stays",
    ),
    "priorities are ignored": (AMQP + "test_priorities.py::test_the_highest_first_and_in_order",),
    "unacknowledged messages are lost with their channel": (
        AMQP + "test_channels.py::test_unacked_messages_come_back_when_the_channel_closes",
    ),
}
