"""Every mutant of every table.

The rule: a table that is missing here is neither applied nor run.
"""

from typing import Final

from tests.mutants.access_table import ACCESS_MUTANTS
from tests.mutants.amqp_table import AMQP_MUTANTS
from tests.mutants.authorization_table import AUTHORIZATION_MUTANTS
from tests.mutants.client_machines_table import CLIENT_MACHINE_MUTANTS
from tests.mutants.client_table import CLIENT_MUTANTS
from tests.mutants.clock_table import CLOCK_MUTANTS
from tests.mutants.cluster_nodes_table import CLUSTER_NODE_MUTANTS
from tests.mutants.cluster_table import CLUSTER_MUTANTS
from tests.mutants.copies_table import COPIES_MUTANTS
from tests.mutants.damage_table import DAMAGE_MUTANTS
from tests.mutants.data_table import DATA_MUTANTS
from tests.mutants.decompression_table import DECOMPRESSION_MUTANTS
from tests.mutants.delayed_table import DELAYED_MUTANTS
from tests.mutants.edge_table import EDGE_MUTANTS
from tests.mutants.hand_over_table import HAND_OVER_MUTANTS
from tests.mutants.held_table import HELD_MUTANTS
from tests.mutants.journal_blocks_table import JOURNAL_BLOCKS_MUTANTS
from tests.mutants.journal_table import JOURNAL_MUTANTS
from tests.mutants.keys_table import KEYS_MUTANTS
from tests.mutants.lake_table import LAKE_MUTANTS
from tests.mutants.lapsing_table import LAPSING_MUTANTS
from tests.mutants.machine_table import MACHINE_MUTANTS
from tests.mutants.management_table import MANAGEMENT_MUTANTS
from tests.mutants.operator_table import OPERATOR_MUTANTS
from tests.mutants.page_table import PAGE_MUTANTS
from tests.mutants.passes_table import PASSES_MUTANTS
from tests.mutants.pipeline_table import PIPELINE_MUTANTS
from tests.mutants.policies_table import POLICY_MUTANTS
from tests.mutants.promises_table import PROMISES_MUTANTS
from tests.mutants.protocols_table import PROTOCOL_MUTANTS
from tests.mutants.pulsar_table import PULSAR_MUTANTS
from tests.mutants.room_table import ROOM_MUTANTS
from tests.mutants.routing_table import ROUTING_MUTANTS
from tests.mutants.semantics_table import SEMANTICS_MUTANTS
from tests.mutants.shards_table import SHARDS_MUTANTS
from tests.mutants.shovel_table import SHOVEL_MUTANTS
from tests.mutants.stream_table import STREAM_MUTANTS
from tests.mutants.supervision_table import SUPERVISION_MUTANTS
from tests.mutants.table import MUTANTS, Mutant
from tests.mutants.topics_table import TOPIC_MUTANTS
from tests.mutants.tracing_table import TRACING_MUTANTS
from tests.mutants.traffic_table import TRAFFIC_MUTANTS
from tests.mutants.transactions_table import TRANSACTION_MUTANTS
from tests.mutants.turns_table import TURNS_MUTANTS

EVERY: Final[tuple[Mutant, ...]] = (
    *MUTANTS,
    *ACCESS_MUTANTS,
    *DECOMPRESSION_MUTANTS,
    *OPERATOR_MUTANTS,
    *AUTHORIZATION_MUTANTS,
    *SEMANTICS_MUTANTS,
    *AMQP_MUTANTS,
    *DAMAGE_MUTANTS,
    *DATA_MUTANTS,
    *CLIENT_MUTANTS,
    *CLIENT_MACHINE_MUTANTS,
    *CLOCK_MUTANTS,
    *CLUSTER_MUTANTS,
    *CLUSTER_NODE_MUTANTS,
    *COPIES_MUTANTS,
    *HAND_OVER_MUTANTS,
    *HELD_MUTANTS,
    *SHARDS_MUTANTS,
    *DELAYED_MUTANTS,
    *EDGE_MUTANTS,
    *KEYS_MUTANTS,
    *JOURNAL_MUTANTS,
    *JOURNAL_BLOCKS_MUTANTS,
    *LAKE_MUTANTS,
    *LAPSING_MUTANTS,
    *MACHINE_MUTANTS,
    *MANAGEMENT_MUTANTS,
    *POLICY_MUTANTS,
    *PROMISES_MUTANTS,
    *PAGE_MUTANTS,
    *PASSES_MUTANTS,
    *PIPELINE_MUTANTS,
    *PULSAR_MUTANTS,
    *SHOVEL_MUTANTS,
    *STREAM_MUTANTS,
    *SUPERVISION_MUTANTS,
    *TOPIC_MUTANTS,
    *PROTOCOL_MUTANTS,
    *TRACING_MUTANTS,
    *TRAFFIC_MUTANTS,
    *TRANSACTION_MUTANTS,
    *TURNS_MUTANTS,
    *ROOM_MUTANTS,
    *ROUTING_MUTANTS,
)
