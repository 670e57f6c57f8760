"""The script: every command of ``pulsar-admin``, with arguments, in an order in which it can be
run.

The rule: each existing command occurs at least once; a test compares the script with what the tool
itself lists. Policies are read before they are set, set, read again and removed.
"""

from collections.abc import Iterator
from typing import Final

TOPIC: Final = "persistent://public/cli/t"
PARTITIONED: Final = "persistent://public/cli/p"
NAMESPACE: Final = "public/cli"

FIRST: Final = f"""
tenants list
tenants create -r admin -c standalone cli-tenant
tenants get cli-tenant
tenants update -r other -c standalone cli-tenant
tenants delete cli-tenant
tenants get cli-tenant
clusters list
clusters list -c
clusters get standalone
clusters create --url http://localhost:1 --broker-url pulsar://localhost:2 other
clusters update --url http://localhost:3 --broker-url pulsar://localhost:4 other
clusters get other
clusters get-peer-clusters other
clusters update-peer-clusters --peer-clusters standalone other
clusters get-cluster-migration other
clusters update-cluster-migration --migrated --broker-url pulsar://localhost:6 other
clusters list-failure-domains other
clusters create-failure-domain --domain-name d --broker-list b other
clusters update-failure-domain --domain-name d --broker-list c other
clusters get-failure-domain --domain-name d other
clusters delete-failure-domain --domain-name d other
clusters delete other
namespaces create -b 4 -c standalone {NAMESPACE}
namespaces create {NAMESPACE}
namespaces create no-tenant/cli
namespaces list public
namespaces list no-tenant
namespaces list-cluster standalone
namespaces policies {NAMESPACE}
namespaces bundles {NAMESPACE}
namespaces topics {NAMESPACE}
namespaces topics -m ALL -ist {NAMESPACE}
namespaces destinations {NAMESPACE}
namespaces grant-permission --role r --actions produce,consume {NAMESPACE}
namespaces permissions {NAMESPACE}
namespaces revoke-permission --role r {NAMESPACE}
namespaces grant-subscription-permission -s s -rs r {NAMESPACE}
namespaces subscription-permission {NAMESPACE}
namespaces revoke-subscription-permission -s s -r r {NAMESPACE}
namespaces get-clusters {NAMESPACE}
namespaces set-clusters -c standalone {NAMESPACE}
namespaces set-clusters -c elsewhere {NAMESPACE}
namespaces get-allowed-clusters {NAMESPACE}
namespaces set-allowed-clusters -c standalone {NAMESPACE}
topics create -m a=b {TOPIC}
topics create {TOPIC}
topics create persistent://public/no-namespace/t
topics create-partitioned-topic -p 2 -m a=b {PARTITIONED}
topics create-partitioned-topic -p 2 {PARTITIONED}
topics create-subscription -s sub -m earliest -p k=v {TOPIC}
topics create-subscription -s sub {TOPIC}
topics create-subscription -s second {TOPIC}
topics create-subscription -s sub {PARTITIONED}
produce {PARTITIONED}
produce {TOPIC}
"""

TOPICS: Final = f"""
topics list {NAMESPACE}
topics list -td persistent -ist {NAMESPACE}
topics list no-tenant/cli
topics list-partitioned-topics {NAMESPACE}
topics grant-permission -r r -a produce,consume {TOPIC}
topics permissions {TOPIC}
topics revoke-permission -r r {TOPIC}
topics revoke-permission -r r {TOPIC}
topics lookup {TOPIC}
topics partitioned-lookup {PARTITIONED}
topics partitioned-lookup -s {PARTITIONED}
topics bundle-range {TOPIC}
topics subscriptions {TOPIC}
topics subscriptions persistent://public/cli/none
topics get-subscription-properties -s sub {TOPIC}
topics update-subscription-properties -s sub -p k=w {TOPIC}
topics get-subscription-properties -s sub {TOPIC}
topics update-subscription-properties -s sub -c {TOPIC}
topics stats {TOPIC}
topics stats -etb -gpb -sbs {TOPIC}
topics stats persistent://public/cli/none
topics stats-internal {TOPIC}
topics stats-internal -m {TOPIC}
topics info-internal {TOPIC}
topics info-internal {PARTITIONED}
topics partitioned-stats {PARTITIONED}
topics partitioned-stats --per-partition {PARTITIONED}
topics partitioned-stats-internal {PARTITIONED}
topics get-partitioned-topic-metadata {PARTITIONED}
topics get-partitioned-topic-metadata {TOPIC}
topics create-missed-partitions {PARTITIONED}
topics update-partitioned-topic -p 3 {PARTITIONED}
topics update-partitioned-topic -p 2 {PARTITIONED}
topics get-properties {TOPIC}
topics update-properties -p c=d {TOPIC}
topics get-properties {TOPIC}
topics remove-properties -k c {TOPIC}
topics get-properties {PARTITIONED}
topics peek-messages -n 2 -s sub {TOPIC}
topics peek-messages -n 2 -s sub -til READ_UNCOMMITTED {TOPIC}
topics peek-messages -n 2 -s sub -til READ_COMMITTED -ssm {TOPIC}
topics examine-messages -i earliest -m 1 {TOPIC}
topics examine-messages -i latest -m 100 {TOPIC}
topics get-message-by-id -l {{ledger}} -e 0 {TOPIC}
topics get-message-by-id -l {{ledger}} -e 999 {TOPIC}
topics get-message-id -d 2021-06-28T16:53:08Z {TOPIC}
topics last-message-id {TOPIC}
topics get-backlog-size -m {{ledger}}:0 {TOPIC}
topics analyze-backlog -s sub {TOPIC}
topics analyze-backlog -s none {TOPIC}
topics skip -n 1 -s sub {TOPIC}
topics skip -n 1 -s none {TOPIC}
topics expire-messages -t 1000 -s sub {TOPIC}
topics expire-messages -p {{ledger}}:1 -s sub {TOPIC}
topics expire-messages-all-subscriptions -t 1000 {TOPIC}
topics reset-cursor -m {{ledger}}:0 -s sub {TOPIC}
topics reset-cursor -t 10m -s sub {TOPIC}
topics clear-backlog -s sub {TOPIC}
topics get-replication-clusters {TOPIC}
topics get-replication-clusters -ap {TOPIC}
topics set-replication-clusters -c standalone {TOPIC}
topics remove-replication-clusters {TOPIC}
topics set-replicated-subscription-status -s sub -e {TOPIC}
topics get-replicated-subscription-status -s sub {TOPIC}
topics get-shadow-topics {TOPIC}
topics set-shadow-topics -t persistent://public/cli/shadow {TOPIC}
topics remove-shadow-topics {TOPIC}
topics create-shadow-topic -s {TOPIC} persistent://public/cli/shadow
topics get-shadow-source persistent://public/cli/shadow
topics get-schema-validation-enforce {TOPIC}
topics get-schema-validation-enforce -ap {TOPIC}
topics set-schema-validation-enforce -e {TOPIC}
topics set-schema-validation-enforce {TOPIC}
topics compact {TOPIC}
topics compaction-status -w {TOPIC}
topics offload -s 10M {TOPIC}
topics offload-status {TOPIC}
topics unload {TOPIC}
topics trim-topic {TOPIC}
topics truncate {TOPIC}
topics unsubscribe -s second {TOPIC}
topics unsubscribe -s second {TOPIC}
persistent list {NAMESPACE}
persistent list-partitioned-topics {NAMESPACE}
persistent grant-permission --role r --actions produce {TOPIC}
persistent permissions {TOPIC}
persistent revoke-permission --role r {TOPIC}
persistent lookup {TOPIC}
persistent bundle-range {TOPIC}
persistent subscriptions {TOPIC}
persistent create-subscription -s third -m earliest {TOPIC}
produce {TOPIC}
persistent stats {TOPIC}
persistent stats-internal {TOPIC}
persistent info-internal {TOPIC}
persistent create-partitioned-topic -p 2 persistent://public/cli/q
persistent get-partitioned-topic-metadata persistent://public/cli/q
persistent partitioned-stats --per-partition persistent://public/cli/q
persistent partitioned-stats-internal persistent://public/cli/q
persistent update-partitioned-topic -p 3 persistent://public/cli/q
persistent delete-partitioned-topic persistent://public/cli/q
persistent peek-messages -n 1 -s third {TOPIC}
persistent get-message-by-id -l {{ledger}} -e 0 {TOPIC}
persistent last-message-id {TOPIC}
persistent skip -n 1 -s third {TOPIC}
persistent skip-all -s third {TOPIC}
persistent expire-messages -s third -t 100 {TOPIC}
persistent expire-messages-all-subscriptions -t 100 {TOPIC}
persistent reset-cursor -s third -t 10m {TOPIC}
persistent unsubscribe -s third {TOPIC}
persistent compact {TOPIC}
persistent compaction-status -w {TOPIC}
persistent unload {TOPIC}
persistent truncate {TOPIC}
non-persistent create-partitioned-topic -p 2 non-persistent://public/cli/n
non-persistent lookup non-persistent://public/cli/n-partition-0
non-persistent stats non-persistent://public/cli/n-partition-0
non-persistent stats-internal non-persistent://public/cli/n-partition-0
non-persistent get-partitioned-topic-metadata non-persistent://public/cli/n
non-persistent list {NAMESPACE}
non-persistent list-in-bundle -b 0x00000000_0x40000000 {NAMESPACE}
namespaces get-topic-positions -b 0x00000000_0x40000000 {NAMESPACE}
"""

ISOLATION: Final = (
    "--auto-failover-policy-type min_available "
    "--auto-failover-policy-params min_limit=1,usage_threshold=80 "
    "--namespaces x/.* --primary b"
)

OTHERS: Final = f"""
schemas upload -f {{schema}} {TOPIC}
schemas get {TOPIC}
schemas get -v 0 {TOPIC}
schemas get -v 7 {TOPIC}
schemas get -a {TOPIC}
schemas metadata {TOPIC}
schemas metadata persistent://public/cli/none
schemas compatibility -f {{schema}} {TOPIC}
schemas extract -j {{jar}} -c Nothing -t avro {TOPIC}
schemas delete {TOPIC}
schemas get {TOPIC}
brokers list standalone
brokers leader-broker
brokers namespaces -u {{broker}} standalone
brokers list-dynamic-config
brokers update-dynamic-config -c allowAutoTopicCreation -v true
brokers update-dynamic-config -c noSuchSetting -v true
brokers get-all-dynamic-config
brokers delete-dynamic-config -c allowAutoTopicCreation
brokers get-internal-config
brokers get-runtime-config
brokers healthcheck
brokers healthcheck -tv V2
brokers backlog-quota-check
brokers version
broker-stats monitoring-metrics
broker-stats mbeans
broker-stats topics
broker-stats allocator-stats default
broker-stats load-report
bookies racks-placement
bookies list-bookies
bookies get-bookie-rack -b localhost:1
bookies set-bookie-rack -b localhost:1 -r /rack
bookies delete-bookie-rack -b localhost:1
resource-quotas get
resource-quotas get -n {NAMESPACE} -b 0x00000000_0x40000000
resource-quotas set -n {NAMESPACE} -b 0x00000000_0x40000000 -mi 10 -mo 10 -bi 1000 -bo 1000 -mem 100
resource-quotas reset-namespace-bundle-quota -n {NAMESPACE} -b 0x00000000_0x40000000
resourcegroups list
resourcegroups create -bd 100 -bp 100 -md 10 -mp 10 rg
resourcegroups create rg
resourcegroups get rg
resourcegroups update -bd 200 -md 20 rg
resourcegroups get rg
namespaces get-resource-group {NAMESPACE}
namespaces set-resource-group -rgn rg {NAMESPACE}
namespaces get-resource-group {NAMESPACE}
resourcegroups delete rg
namespaces remove-resource-group {NAMESPACE}
namespaces set-resource-group -rgn none {NAMESPACE}
resourcegroups delete rg
resourcegroups get rg
transact {TOPIC} sub
transactions coordinators-list
transactions coordinator-stats
transactions coordinator-stats -c {{most}}
transactions coordinator-internal-stats -c {{most}}
transactions transaction-buffer-stats -t {TOPIC}
transactions pending-ack-stats -t {TOPIC} -s sub
transactions pending-ack-internal-stats -t {TOPIC} -s sub
transactions buffer-snapshot-internal-stats -t {TOPIC}
transactions transaction-in-buffer-stats -m {{most}} -l {{least}} -t {TOPIC}
transactions transaction-in-pending-ack-stats -m {{most}} -l {{least}} -t {TOPIC} -s sub
transactions transaction-metadata -m {{most}} -l {{least}}
transactions transaction-metadata -m {{most}} -l 999999
topics peek-messages -n 1 -s sub -til READ_COMMITTED {TOPIC}
topics peek-messages -n 1 -s sub -til READ_UNCOMMITTED {TOPIC}
transactions slow-transactions -t 1s
transactions slow-transactions -t 1s -c {{most}}
transactions position-stats-in-pending-ack -t {TOPIC} -s sub -l {{ledger}} -e 0
transactions abort-transaction -m {{most}} -l {{least}}
transactions abort-transaction -m {{most}} -l 999999
transactions scale-transactionCoordinators -r 1
end-transactions
proxy-stats connections
proxy-stats topics
ns-isolation-policy set {ISOLATION} standalone policy
ns-isolation-policy get standalone policy
ns-isolation-policy list standalone
ns-isolation-policy brokers standalone
ns-isolation-policy broker --broker {{broker}} standalone
ns-isolation-policy delete standalone policy
functions-worker function-stats
functions-worker monitoring-metrics
functions-worker get-cluster
functions-worker get-cluster-leader
functions-worker get-function-assignments
functions-worker rebalance
functions create --jar {{jar}} --classname C --name f --inputs i
functions update --jar {{jar}} --classname C --name f --inputs i
functions get --name f
functions list
functions status --name f
functions stats --name f
functions start --name f
functions stop --name f
functions restart --name f
functions delete --name f
functions querystate --name f --key k
functions putstate --name f --state '{{{{"key":"k","stringValue":"v"}}}}'
functions trigger --name f --trigger-value v
functions upload --source-file {{jar}} --path p
functions download --destination-file {{there}} --path p
functions reload
functions available-functions
sources create --archive {{jar}} --name s --destination-topic-name d --classname C
sources update --archive {{jar}} --name s --classname C
sources get --name s
sources list
sources status --name s
sources start --name s
sources stop --name s
sources restart --name s
sources delete --name s
sources available-sources
sources reload
sinks create --archive {{jar}} --name s --inputs i --classname C
sinks update --archive {{jar}} --name s --classname C
sinks get --name s
sinks list
sinks status --name s
sinks start --name s
sinks stop --name s
sinks restart --name s
sinks delete --name s
sinks available-sinks
sinks reload
packages list --type function {NAMESPACE}
packages list-versions function://public/cli/f
packages get-metadata function://public/cli/f@1
packages update-metadata --description d function://public/cli/f@1
packages upload --description d --path {{jar}} function://public/cli/f@1
packages download --path {{there}} function://public/cli/f@1
packages delete function://public/cli/f@1
"""

LAST: Final = f"""
namespaces split-bundle -b 0x00000000_0x40000000 {NAMESPACE}
namespaces bundles {NAMESPACE}
namespaces unload -b 0x40000000_0x80000000 {NAMESPACE}
namespaces unload {NAMESPACE}
namespaces clear-backlog -force -s sub {NAMESPACE}
namespaces clear-backlog -force {NAMESPACE}
namespaces unsubscribe -s sub {NAMESPACE}
namespaces update-migration-state --migrated {NAMESPACE}
namespaces set-property -k a -v b {NAMESPACE}
namespaces get-property -k a {NAMESPACE}
namespaces remove-property -k a {NAMESPACE}
namespaces set-properties -p a=b,c=d {NAMESPACE}
namespaces get-properties {NAMESPACE}
namespaces clear-properties {NAMESPACE}
namespaces policies {NAMESPACE}
topics terminate {TOPIC}
topics partitioned-terminate {PARTITIONED}
persistent terminate {TOPIC}
topics delete -f {TOPIC}
persistent delete {TOPIC}
topics delete-partitioned-topic {PARTITIONED}
topics delete-partitioned-topic {PARTITIONED}
namespaces delete -f {NAMESPACE}
namespaces delete {NAMESPACE}
"""

DISPATCH: Final = "-md 10 -bd 1000 -dt 2"
OFFLOAD: Final = "-d filesystem -b bucket"

OF_TOPIC_POLICIES: Final = {
    "message-ttl": "-t 100",
    "max-unacked-messages-per-consumer": "-m 10",
    "max-consumers-per-subscription": "-c 10",
    "subscription-types-enabled": "-t Shared,Failover",
    "retention": "-s 10M -t 1h",
    "backlog-quota": "-l 10M -p producer_request_hold",
    "max-producers": "-p 10",
    "max-message-size": "-m 1000",
    "deduplication": "-e",
    "deduplication-snapshot-interval": "-i 10",
    "persistence": "-e 1 -w 1 -a 1 -r 1.5",
    "subscription-dispatch-rate": DISPATCH,
    "replicator-dispatch-rate": DISPATCH,
    "publish-rate": "-m 100 -b 1000",
    "compaction-threshold": "-t 100M",
    "subscribe-rate": "-sr 10 -st 20",
    "max-consumers": "-c 10",
    "delayed-delivery": "-e -t 2s",
    "dispatch-rate": DISPATCH,
    "offload-policies": OFFLOAD,
    "max-unacked-messages-per-subscription": "-m 10",
    "inactive-topic-policies": "-e -m delete_when_no_subscriptions -t 100s",
    "max-subscriptions-per-topic": "-s 10",
    "schema-compatibility-strategy": "-s BACKWARD",
    "entry-filters-per-topic": "-efn filter",
    "auto-subscription-creation": "-e",
    "dispatcher-pause-on-ack-state-persistent": "",
}

SHOWS_APPLIED: Final = frozenset(
    {
        "auto-subscription-creation",
        "backlog-quota",
        "compaction-threshold",
        "delayed-delivery",
        "dispatch-rate",
        "dispatcher-pause-on-ack-state-persistent",
        "entry-filters-per-topic",
        "inactive-topic-policies",
        "max-consumers",
        "max-producers",
        "max-unacked-messages-per-consumer",
        "max-unacked-messages-per-subscription",
        "message-ttl",
        "offload-policies",
        "replicator-dispatch-rate",
        "retention",
        "schema-compatibility-strategy",
        "subscribe-rate",
        "subscription-dispatch-rate",
    }
)
"""Policies that ``topicPolicies`` can also show with ``-ap``."""

APPLIED: Final = {
    "auto-subscription-creation": "-a",
    "dispatcher-pause-on-ack-state-persistent": "-a",
}

OF_TOPICS: Final = {
    "backlog-quota": "-l 10M -p producer_request_hold",
    "message-ttl": "-t 100",
    "retention": "-s 10M -t 1h",
    "deduplication": "-e",
    "deduplication-snapshot-interval": "-i 10",
    "delayed-delivery": "-e -t 2s",
    "persistence": "-e 1 -w 1 -a 1 -r 1.5",
    "offload-policies": OFFLOAD,
    "dispatch-rate": DISPATCH,
    "subscription-dispatch-rate": DISPATCH,
    "replicator-dispatch-rate": DISPATCH,
    "compaction-threshold": "-t 100M",
    "max-unacked-messages-on-consumer": "-m 10",
    "max-unacked-messages-on-subscription": "-m 10",
    "max-unacked-messages-per-consumer": "-m 10",
    "max-unacked-messages-per-subscription": "-m 10",
    "publish-rate": "-m 100 -b 1000",
    "subscription-types-enabled": "-t Shared",
    "maxProducers": "-p 10",
    "max-producers": "-p 10",
    "max-subscriptions": "-m 10",
    "max-message-size": "-m 1000",
    "max-consumers-per-subscription": "-c 10",
    "inactive-topic-policies": "-e -m delete_when_no_subscriptions -t 100s",
    "max-consumers": "-c 10",
    "subscribe-rate": "-sr 10 -st 20",
}

OF_NAMESPACES: Final = {
    "subscription-types-enabled": "-t Shared",
    "backlog-quota": "-l 10M -p producer_request_hold",
    "persistence": "-e 1 -w 1 -a 1 -r 1.5",
    "message-ttl": "-ttl 100",
    "max-subscriptions-per-topic": "-m 10",
    "subscription-expiration-time": "-t 10",
    "deduplication": "-e",
    "auto-topic-creation": "-e -t partitioned -n 2",
    "auto-subscription-creation": "-e",
    "retention": "-s 10M -t 1h",
    "dispatch-rate": DISPATCH,
    "subscribe-rate": "-sr 10 -st 20",
    "subscription-dispatch-rate": DISPATCH,
    "publish-rate": "-m 100 -b 1000",
    "replicator-dispatch-rate": "-md 10 -bd 1000 -dt 2",
    "delayed-delivery": "-e -t 2s",
    "inactive-topic-policies": "-e -m delete_when_no_subscriptions -t 100s",
    "max-producers-per-topic": "-p 10",
    "max-consumers-per-topic": "-c 10",
    "max-consumers-per-subscription": "-c 10",
    "max-unacked-messages-per-subscription": "-c 10",
    "max-unacked-messages-per-consumer": "-c 10",
    "compaction-threshold": "-t 100M",
    "offload-policies": OFFLOAD,
    "deduplication-snapshot-interval": "-i 10",
    "max-topics-per-namespace": "-t 1000",
    "entry-filters": "-efn filter",
    "dispatcher-pause-on-ack-state-persistent": "",
}

WITHOUT_REMOVAL: Final = {
    "anti-affinity-group": "-g group",
    "bookie-affinity-group": "-pg group",
    "encryption-required": "-e",
    "subscription-auth-mode": "-m Prefix",
    "offload-threshold": "-s 10M",
    "offload-deletion-lag": "-l 10m",
    "schema-autoupdate-strategy": "-c Backward",
    "schema-compatibility-strategy": "-c BACKWARD",
    "is-allow-auto-update-schema": "-d",
    "schema-validation-enforce": "-e",
}
"""Policies of namespaces that are not removed but reset by the commands below."""

ENDS: Final = f"""
namespaces get-anti-affinity-namespaces -c standalone -g group
namespaces delete-anti-affinity-group {NAMESPACE}
namespaces delete-bookie-affinity-group {NAMESPACE}
namespaces set-encryption-required -d {NAMESPACE}
namespaces set-subscription-auth-mode -m None {NAMESPACE}
namespaces clear-offload-deletion-lag {NAMESPACE}
namespaces set-schema-autoupdate-strategy -c Full {NAMESPACE}
namespaces set-schema-compatibility-strategy -c UNDEFINED {NAMESPACE}
namespaces set-is-allow-auto-update-schema -e {NAMESPACE}
namespaces set-schema-validation-enforce -d {NAMESPACE}
topics enable-deduplication {TOPIC}
topics get-deduplication-enabled {TOPIC}
topics disable-deduplication {TOPIC}
"""

NOT_PLAYED: Final = {
    "brokers shutdown": "it ends the broker that is compared",
    "documents generate": "it asks no broker",
    "functions localrun": "it asks no broker",
    "sinks localrun": "it asks no broker",
    "sources localrun": "it asks no broker",
}
"""Commands that the script leaves out, and why."""


def policies(group: str, table: dict[str, str], target: str) -> Iterator[str]:
    """The commands that read a policy, set it, read it again and remove it."""
    for name, arguments in table.items():
        asked = (
            f"get-{name}s"
            if name == "backlog-quota" and group != "topicPolicies"
            else f"get-{name}"
        )
        ask = f"{group} {asked} {target}"
        yield ask
        if group == "topicPolicies" and name in SHOWS_APPLIED:
            yield f"{group} {asked} {APPLIED.get(name, '-ap')} {target}"
        yield f"{group} set-{name} {arguments} {target}".replace("  ", " ")
        yield ask
        if table is not WITHOUT_REMOVAL:
            yield f"{group} remove-{name} {target}"


def script() -> list[str]:
    """All commands, in order."""
    return [
        *FIRST.strip().splitlines(),
        *TOPICS.strip().splitlines(),
        *policies("topicPolicies", OF_TOPIC_POLICIES, TOPIC),
        *policies("topics", OF_TOPICS, TOPIC),
        *policies("namespaces", OF_NAMESPACES, NAMESPACE),
        *policies("namespaces", WITHOUT_REMOVAL, NAMESPACE),
        *ENDS.strip().splitlines(),
        *OTHERS.strip().splitlines(),
        *LAST.strip().splitlines(),
    ]
