# Made from pulsar.proto by `python -m arneb_pulsar.wire.proto.generate`; do not edit.

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.internal.containers import (
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message

DESCRIPTOR: FileDescriptor

class ServerError(int, metaclass=EnumTypeWrapper):
    UnknownError: ClassVar[ServerError]
    MetadataError: ClassVar[ServerError]
    PersistenceError: ClassVar[ServerError]
    AuthenticationError: ClassVar[ServerError]
    AuthorizationError: ClassVar[ServerError]
    ConsumerBusy: ClassVar[ServerError]
    ServiceNotReady: ClassVar[ServerError]
    ProducerBlockedQuotaExceededError: ClassVar[ServerError]
    ProducerBlockedQuotaExceededException: ClassVar[ServerError]
    ChecksumError: ClassVar[ServerError]
    UnsupportedVersionError: ClassVar[ServerError]
    TopicNotFound: ClassVar[ServerError]
    SubscriptionNotFound: ClassVar[ServerError]
    ConsumerNotFound: ClassVar[ServerError]
    TooManyRequests: ClassVar[ServerError]
    TopicTerminatedError: ClassVar[ServerError]
    ProducerBusy: ClassVar[ServerError]
    InvalidTopicName: ClassVar[ServerError]
    IncompatibleSchema: ClassVar[ServerError]
    ConsumerAssignError: ClassVar[ServerError]
    TransactionCoordinatorNotFound: ClassVar[ServerError]
    InvalidTxnStatus: ClassVar[ServerError]
    NotAllowedError: ClassVar[ServerError]
    TransactionConflict: ClassVar[ServerError]
    TransactionNotFound: ClassVar[ServerError]
    ProducerFenced: ClassVar[ServerError]
UnknownError: ServerError
MetadataError: ServerError
PersistenceError: ServerError
AuthenticationError: ServerError
AuthorizationError: ServerError
ConsumerBusy: ServerError
ServiceNotReady: ServerError
ProducerBlockedQuotaExceededError: ServerError
ProducerBlockedQuotaExceededException: ServerError
ChecksumError: ServerError
UnsupportedVersionError: ServerError
TopicNotFound: ServerError
SubscriptionNotFound: ServerError
ConsumerNotFound: ServerError
TooManyRequests: ServerError
TopicTerminatedError: ServerError
ProducerBusy: ServerError
InvalidTopicName: ServerError
IncompatibleSchema: ServerError
ConsumerAssignError: ServerError
TransactionCoordinatorNotFound: ServerError
InvalidTxnStatus: ServerError
NotAllowedError: ServerError
TransactionConflict: ServerError
TransactionNotFound: ServerError
ProducerFenced: ServerError

class CompressionType(int, metaclass=EnumTypeWrapper):
    NONE: ClassVar[CompressionType]
    LZ4: ClassVar[CompressionType]
    ZLIB: ClassVar[CompressionType]
    ZSTD: ClassVar[CompressionType]
    SNAPPY: ClassVar[CompressionType]
NONE: CompressionType
LZ4: CompressionType
ZLIB: CompressionType
ZSTD: CompressionType
SNAPPY: CompressionType

class AuthMethod(int, metaclass=EnumTypeWrapper):
    AuthMethodNone: ClassVar[AuthMethod]
    AuthMethodYcaV1: ClassVar[AuthMethod]
    AuthMethodAthens: ClassVar[AuthMethod]
AuthMethodNone: AuthMethod
AuthMethodYcaV1: AuthMethod
AuthMethodAthens: AuthMethod

class ProtocolVersion(int, metaclass=EnumTypeWrapper):
    v0: ClassVar[ProtocolVersion]
    v1: ClassVar[ProtocolVersion]
    v2: ClassVar[ProtocolVersion]
    v3: ClassVar[ProtocolVersion]
    v4: ClassVar[ProtocolVersion]
    v5: ClassVar[ProtocolVersion]
    v6: ClassVar[ProtocolVersion]
    v7: ClassVar[ProtocolVersion]
    v8: ClassVar[ProtocolVersion]
    v9: ClassVar[ProtocolVersion]
    v10: ClassVar[ProtocolVersion]
    v11: ClassVar[ProtocolVersion]
    v12: ClassVar[ProtocolVersion]
    v13: ClassVar[ProtocolVersion]
    v14: ClassVar[ProtocolVersion]
    v15: ClassVar[ProtocolVersion]
    v16: ClassVar[ProtocolVersion]
    v17: ClassVar[ProtocolVersion]
    v18: ClassVar[ProtocolVersion]
    v19: ClassVar[ProtocolVersion]
    v20: ClassVar[ProtocolVersion]
    v21: ClassVar[ProtocolVersion]
v0: ProtocolVersion
v1: ProtocolVersion
v2: ProtocolVersion
v3: ProtocolVersion
v4: ProtocolVersion
v5: ProtocolVersion
v6: ProtocolVersion
v7: ProtocolVersion
v8: ProtocolVersion
v9: ProtocolVersion
v10: ProtocolVersion
v11: ProtocolVersion
v12: ProtocolVersion
v13: ProtocolVersion
v14: ProtocolVersion
v15: ProtocolVersion
v16: ProtocolVersion
v17: ProtocolVersion
v18: ProtocolVersion
v19: ProtocolVersion
v20: ProtocolVersion
v21: ProtocolVersion

class ProducerAccessMode(int, metaclass=EnumTypeWrapper):
    Shared: ClassVar[ProducerAccessMode]
    Exclusive: ClassVar[ProducerAccessMode]
    WaitForExclusive: ClassVar[ProducerAccessMode]
    ExclusiveWithFencing: ClassVar[ProducerAccessMode]
Shared: ProducerAccessMode
Exclusive: ProducerAccessMode
WaitForExclusive: ProducerAccessMode
ExclusiveWithFencing: ProducerAccessMode

class KeySharedMode(int, metaclass=EnumTypeWrapper):
    AUTO_SPLIT: ClassVar[KeySharedMode]
    STICKY: ClassVar[KeySharedMode]
AUTO_SPLIT: KeySharedMode
STICKY: KeySharedMode

class TxnAction(int, metaclass=EnumTypeWrapper):
    COMMIT: ClassVar[TxnAction]
    ABORT: ClassVar[TxnAction]
COMMIT: TxnAction
ABORT: TxnAction

_KeyValue = KeyValue

class KeyValue(Message):
    key: str
    value: str
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: str | None = ...,
    ) -> None: ...

class KeyLongValue(Message):
    key: str
    value: int
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: int | None = ...,
    ) -> None: ...

class IntRange(Message):
    start: int
    end: int
    def __init__(
        self,
        *,
        start: int | None = ...,
        end: int | None = ...,
    ) -> None: ...

class MessageIdData(Message):
    ledgerId: int
    entryId: int
    partition: int
    batch_index: int
    @property
    def ack_set(self) -> RepeatedScalarFieldContainer[int]: ...
    batch_size: int
    @property
    def first_chunk_message_id(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        ledgerId: int | None = ...,
        entryId: int | None = ...,
        partition: int | None = ...,
        batch_index: int | None = ...,
        ack_set: Iterable[int] | None = ...,
        batch_size: int | None = ...,
        first_chunk_message_id: MessageIdData | Mapping[str, Any] | None = ...,
    ) -> None: ...

class Schema(Message):

    class Type(int, metaclass=EnumTypeWrapper):
        String: ClassVar[Schema.Type]
        Json: ClassVar[Schema.Type]
        Protobuf: ClassVar[Schema.Type]
        Avro: ClassVar[Schema.Type]
        Bool: ClassVar[Schema.Type]
        Int8: ClassVar[Schema.Type]
        Int16: ClassVar[Schema.Type]
        Int32: ClassVar[Schema.Type]
        Int64: ClassVar[Schema.Type]
        Float: ClassVar[Schema.Type]
        Double: ClassVar[Schema.Type]
        Date: ClassVar[Schema.Type]
        Time: ClassVar[Schema.Type]
        Timestamp: ClassVar[Schema.Type]
        KeyValue: ClassVar[Schema.Type]
        Instant: ClassVar[Schema.Type]
        LocalDate: ClassVar[Schema.Type]
        LocalTime: ClassVar[Schema.Type]
        LocalDateTime: ClassVar[Schema.Type]
        ProtobufNative: ClassVar[Schema.Type]
        AutoConsume: ClassVar[Schema.Type]
    String: ClassVar[Schema.Type]
    Json: ClassVar[Schema.Type]
    Protobuf: ClassVar[Schema.Type]
    Avro: ClassVar[Schema.Type]
    Bool: ClassVar[Schema.Type]
    Int8: ClassVar[Schema.Type]
    Int16: ClassVar[Schema.Type]
    Int32: ClassVar[Schema.Type]
    Int64: ClassVar[Schema.Type]
    Float: ClassVar[Schema.Type]
    Double: ClassVar[Schema.Type]
    Date: ClassVar[Schema.Type]
    Time: ClassVar[Schema.Type]
    Timestamp: ClassVar[Schema.Type]
    KeyValue: ClassVar[Schema.Type]
    Instant: ClassVar[Schema.Type]
    LocalDate: ClassVar[Schema.Type]
    LocalTime: ClassVar[Schema.Type]
    LocalDateTime: ClassVar[Schema.Type]
    ProtobufNative: ClassVar[Schema.Type]
    AutoConsume: ClassVar[Schema.Type]
    name: str
    schema_data: bytes
    type: Schema.Type
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        schema_data: bytes | None = ...,
        type: Schema.Type | int | str | None = ...,
        properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
    ) -> None: ...

class EncryptionKeys(Message):
    key: str
    value: bytes
    @property
    def metadata(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    def __init__(
        self,
        *,
        key: str | None = ...,
        value: bytes | None = ...,
        metadata: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
    ) -> None: ...

class MessageMetadata(Message):
    producer_name: str
    sequence_id: int
    publish_time: int
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    event_time: int
    partition_key: str
    partition_key_b64_encoded: bool
    null_partition_key: bool
    ordering_key: bytes
    compression: CompressionType
    uncompressed_size: int
    num_messages_in_batch: int
    highest_sequence_id: int
    null_value: bool
    @property
    def compacted_batch_indexes(self) -> RepeatedScalarFieldContainer[int]: ...
    schema_version: bytes
    @property
    def encryption_keys(self) -> RepeatedCompositeFieldContainer[EncryptionKeys]: ...
    encryption_algo: str
    encryption_param: bytes
    deliver_at_time: int
    uuid: str
    num_chunks_from_msg: int
    total_chunk_msg_size: int
    chunk_id: int
    replicated_from: str
    @property
    def replicate_to(self) -> RepeatedScalarFieldContainer[str]: ...
    marker_type: int
    txnid_least_bits: int
    txnid_most_bits: int
    def __init__(
        self,
        *,
        producer_name: str | None = ...,
        sequence_id: int | None = ...,
        publish_time: int | None = ...,
        properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
        event_time: int | None = ...,
        partition_key: str | None = ...,
        partition_key_b64_encoded: bool | None = ...,
        null_partition_key: bool | None = ...,
        ordering_key: bytes | None = ...,
        compression: CompressionType | int | str | None = ...,
        uncompressed_size: int | None = ...,
        num_messages_in_batch: int | None = ...,
        highest_sequence_id: int | None = ...,
        null_value: bool | None = ...,
        compacted_batch_indexes: Iterable[int] | None = ...,
        schema_version: bytes | None = ...,
        encryption_keys: Iterable[EncryptionKeys | Mapping[str, Any]] | None = ...,
        encryption_algo: str | None = ...,
        encryption_param: bytes | None = ...,
        deliver_at_time: int | None = ...,
        uuid: str | None = ...,
        num_chunks_from_msg: int | None = ...,
        total_chunk_msg_size: int | None = ...,
        chunk_id: int | None = ...,
        replicated_from: str | None = ...,
        replicate_to: Iterable[str] | None = ...,
        marker_type: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
    ) -> None: ...

class SingleMessageMetadata(Message):
    payload_size: int
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    event_time: int
    sequence_id: int
    partition_key: str
    partition_key_b64_encoded: bool
    null_partition_key: bool
    ordering_key: bytes
    null_value: bool
    compacted_out: bool
    def __init__(
        self,
        *,
        payload_size: int | None = ...,
        properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
        event_time: int | None = ...,
        sequence_id: int | None = ...,
        partition_key: str | None = ...,
        partition_key_b64_encoded: bool | None = ...,
        null_partition_key: bool | None = ...,
        ordering_key: bytes | None = ...,
        null_value: bool | None = ...,
        compacted_out: bool | None = ...,
    ) -> None: ...

class BrokerEntryMetadata(Message):
    broker_timestamp: int
    index: int
    def __init__(
        self,
        *,
        broker_timestamp: int | None = ...,
        index: int | None = ...,
    ) -> None: ...

class FeatureFlags(Message):
    supports_auth_refresh: bool
    supports_broker_entry_metadata: bool
    supports_partial_producer: bool
    supports_topic_watchers: bool
    supports_get_partitioned_metadata_without_auto_creation: bool
    supports_repl_dedup_by_lid_and_eid: bool
    def __init__(
        self,
        *,
        supports_auth_refresh: bool | None = ...,
        supports_broker_entry_metadata: bool | None = ...,
        supports_partial_producer: bool | None = ...,
        supports_topic_watchers: bool | None = ...,
        supports_get_partitioned_metadata_without_auto_creation: bool | None = ...,
        supports_repl_dedup_by_lid_and_eid: bool | None = ...,
    ) -> None: ...

class CommandConnect(Message):
    client_version: str
    protocol_version: int
    @property
    def feature_flags(self) -> FeatureFlags: ...
    auth_method: AuthMethod
    auth_method_name: str
    auth_data: bytes
    proxy_to_broker_url: str
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    proxy_version: str
    def __init__(
        self,
        *,
        client_version: str | None = ...,
        protocol_version: int | None = ...,
        feature_flags: FeatureFlags | Mapping[str, Any] | None = ...,
        auth_method: AuthMethod | int | str | None = ...,
        auth_method_name: str | None = ...,
        auth_data: bytes | None = ...,
        proxy_to_broker_url: str | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        proxy_version: str | None = ...,
    ) -> None: ...

class CommandConnected(Message):
    server_version: str
    protocol_version: int
    max_message_size: int
    @property
    def feature_flags(self) -> FeatureFlags: ...
    def __init__(
        self,
        *,
        server_version: str | None = ...,
        protocol_version: int | None = ...,
        max_message_size: int | None = ...,
        feature_flags: FeatureFlags | Mapping[str, Any] | None = ...,
    ) -> None: ...

class AuthData(Message):
    auth_method_name: str
    auth_data: bytes
    def __init__(
        self,
        *,
        auth_method_name: str | None = ...,
        auth_data: bytes | None = ...,
    ) -> None: ...

class CommandAuthChallenge(Message):
    server_version: str
    @property
    def challenge(self) -> AuthData: ...
    protocol_version: int
    def __init__(
        self,
        *,
        server_version: str | None = ...,
        challenge: AuthData | Mapping[str, Any] | None = ...,
        protocol_version: int | None = ...,
    ) -> None: ...

class CommandAuthResponse(Message):
    client_version: str
    @property
    def response(self) -> AuthData: ...
    protocol_version: int
    def __init__(
        self,
        *,
        client_version: str | None = ...,
        response: AuthData | Mapping[str, Any] | None = ...,
        protocol_version: int | None = ...,
    ) -> None: ...

class CommandPing(Message):
    def __init__(
        self,
    ) -> None: ...

class CommandPong(Message):
    def __init__(
        self,
    ) -> None: ...

class CommandSuccess(Message):
    request_id: int
    @property
    def schema(self) -> Schema: ...
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        schema: Schema | Mapping[str, Any] | None = ...,
    ) -> None: ...

class CommandError(Message):
    request_id: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandPartitionedTopicMetadata(Message):
    topic: str
    request_id: int
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    metadata_auto_creation_enabled: bool
    def __init__(
        self,
        *,
        topic: str | None = ...,
        request_id: int | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        metadata_auto_creation_enabled: bool | None = ...,
    ) -> None: ...

class CommandPartitionedTopicMetadataResponse(Message):

    class LookupType(int, metaclass=EnumTypeWrapper):
        Success: ClassVar[CommandPartitionedTopicMetadataResponse.LookupType]
        Failed: ClassVar[CommandPartitionedTopicMetadataResponse.LookupType]
    Success: ClassVar[CommandPartitionedTopicMetadataResponse.LookupType]
    Failed: ClassVar[CommandPartitionedTopicMetadataResponse.LookupType]
    request_id: int
    response: CommandPartitionedTopicMetadataResponse.LookupType
    partitions: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        response: CommandPartitionedTopicMetadataResponse.LookupType | int | str | None = ...,
        partitions: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandLookupTopic(Message):
    topic: str
    request_id: int
    authoritative: bool
    original_principal: str
    original_auth_data: str
    original_auth_method: str
    advertised_listener_name: str
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    def __init__(
        self,
        *,
        topic: str | None = ...,
        request_id: int | None = ...,
        authoritative: bool | None = ...,
        original_principal: str | None = ...,
        original_auth_data: str | None = ...,
        original_auth_method: str | None = ...,
        advertised_listener_name: str | None = ...,
        properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
    ) -> None: ...

class CommandLookupTopicResponse(Message):

    class LookupType(int, metaclass=EnumTypeWrapper):
        Redirect: ClassVar[CommandLookupTopicResponse.LookupType]
        Connect: ClassVar[CommandLookupTopicResponse.LookupType]
        Failed: ClassVar[CommandLookupTopicResponse.LookupType]
    Redirect: ClassVar[CommandLookupTopicResponse.LookupType]
    Connect: ClassVar[CommandLookupTopicResponse.LookupType]
    Failed: ClassVar[CommandLookupTopicResponse.LookupType]
    request_id: int
    response: CommandLookupTopicResponse.LookupType
    brokerServiceUrl: str
    brokerServiceUrlTls: str
    authoritative: bool
    proxy_through_service_url: bool
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        response: CommandLookupTopicResponse.LookupType | int | str | None = ...,
        brokerServiceUrl: str | None = ...,
        brokerServiceUrlTls: str | None = ...,
        authoritative: bool | None = ...,
        proxy_through_service_url: bool | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandGetTopicsOfNamespace(Message):

    class Mode(int, metaclass=EnumTypeWrapper):
        PERSISTENT: ClassVar[CommandGetTopicsOfNamespace.Mode]
        NON_PERSISTENT: ClassVar[CommandGetTopicsOfNamespace.Mode]
        ALL: ClassVar[CommandGetTopicsOfNamespace.Mode]
    PERSISTENT: ClassVar[CommandGetTopicsOfNamespace.Mode]
    NON_PERSISTENT: ClassVar[CommandGetTopicsOfNamespace.Mode]
    ALL: ClassVar[CommandGetTopicsOfNamespace.Mode]
    request_id: int
    namespace: str
    mode: CommandGetTopicsOfNamespace.Mode
    topics_pattern: str
    topics_hash: str
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        namespace: str | None = ...,
        mode: CommandGetTopicsOfNamespace.Mode | int | str | None = ...,
        topics_pattern: str | None = ...,
        topics_hash: str | None = ...,
        properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
    ) -> None: ...

class CommandGetTopicsOfNamespaceResponse(Message):
    request_id: int
    @property
    def topics(self) -> RepeatedScalarFieldContainer[str]: ...
    filtered: bool
    topics_hash: str
    changed: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topics: Iterable[str] | None = ...,
        filtered: bool | None = ...,
        topics_hash: str | None = ...,
        changed: bool | None = ...,
    ) -> None: ...

class CommandWatchTopicList(Message):
    request_id: int
    watcher_id: int
    namespace: str
    topics_pattern: str
    topics_hash: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
        namespace: str | None = ...,
        topics_pattern: str | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicListSuccess(Message):
    request_id: int
    watcher_id: int
    @property
    def topic(self) -> RepeatedScalarFieldContainer[str]: ...
    topics_hash: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
        topic: Iterable[str] | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicUpdate(Message):
    watcher_id: int
    @property
    def new_topics(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def deleted_topics(self) -> RepeatedScalarFieldContainer[str]: ...
    topics_hash: str
    def __init__(
        self,
        *,
        watcher_id: int | None = ...,
        new_topics: Iterable[str] | None = ...,
        deleted_topics: Iterable[str] | None = ...,
        topics_hash: str | None = ...,
    ) -> None: ...

class CommandWatchTopicListClose(Message):
    request_id: int
    watcher_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        watcher_id: int | None = ...,
    ) -> None: ...

class CommandTopicMigrated(Message):

    class ResourceType(int, metaclass=EnumTypeWrapper):
        Producer: ClassVar[CommandTopicMigrated.ResourceType]
        Consumer: ClassVar[CommandTopicMigrated.ResourceType]
    Producer: ClassVar[CommandTopicMigrated.ResourceType]
    Consumer: ClassVar[CommandTopicMigrated.ResourceType]
    resource_id: int
    resource_type: CommandTopicMigrated.ResourceType
    brokerServiceUrl: str
    brokerServiceUrlTls: str
    def __init__(
        self,
        *,
        resource_id: int | None = ...,
        resource_type: CommandTopicMigrated.ResourceType | int | str | None = ...,
        brokerServiceUrl: str | None = ...,
        brokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class CommandProducer(Message):
    topic: str
    producer_id: int
    request_id: int
    producer_name: str
    user_provided_producer_name: bool
    epoch: int
    encrypted: bool
    @property
    def metadata(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    @property
    def schema(self) -> Schema: ...
    producer_access_mode: ProducerAccessMode
    topic_epoch: int
    txn_enabled: bool
    initial_subscription_name: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        producer_id: int | None = ...,
        request_id: int | None = ...,
        producer_name: str | None = ...,
        user_provided_producer_name: bool | None = ...,
        epoch: int | None = ...,
        encrypted: bool | None = ...,
        metadata: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
        schema: Schema | Mapping[str, Any] | None = ...,
        producer_access_mode: ProducerAccessMode | int | str | None = ...,
        topic_epoch: int | None = ...,
        txn_enabled: bool | None = ...,
        initial_subscription_name: str | None = ...,
    ) -> None: ...

class CommandProducerSuccess(Message):
    request_id: int
    producer_name: str
    last_sequence_id: int
    schema_version: bytes
    topic_epoch: int
    producer_ready: bool
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        producer_name: str | None = ...,
        last_sequence_id: int | None = ...,
        schema_version: bytes | None = ...,
        topic_epoch: int | None = ...,
        producer_ready: bool | None = ...,
    ) -> None: ...

class CommandSend(Message):
    producer_id: int
    sequence_id: int
    num_messages: int
    txnid_least_bits: int
    txnid_most_bits: int
    highest_sequence_id: int
    is_chunk: bool
    marker: bool
    @property
    def message_id(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        num_messages: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        highest_sequence_id: int | None = ...,
        is_chunk: bool | None = ...,
        marker: bool | None = ...,
        message_id: MessageIdData | Mapping[str, Any] | None = ...,
    ) -> None: ...

class CommandSendReceipt(Message):
    producer_id: int
    sequence_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    highest_sequence_id: int
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        message_id: MessageIdData | Mapping[str, Any] | None = ...,
        highest_sequence_id: int | None = ...,
    ) -> None: ...

class CommandSendError(Message):
    producer_id: int
    sequence_id: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        sequence_id: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandCloseProducer(Message):
    producer_id: int
    request_id: int
    assignedBrokerServiceUrl: str
    assignedBrokerServiceUrlTls: str
    def __init__(
        self,
        *,
        producer_id: int | None = ...,
        request_id: int | None = ...,
        assignedBrokerServiceUrl: str | None = ...,
        assignedBrokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class KeySharedMeta(Message):
    keySharedMode: KeySharedMode
    @property
    def hashRanges(self) -> RepeatedCompositeFieldContainer[IntRange]: ...
    allowOutOfOrderDelivery: bool
    def __init__(
        self,
        *,
        keySharedMode: KeySharedMode | int | str | None = ...,
        hashRanges: Iterable[IntRange | Mapping[str, Any]] | None = ...,
        allowOutOfOrderDelivery: bool | None = ...,
    ) -> None: ...

class CommandSubscribe(Message):

    class SubType(int, metaclass=EnumTypeWrapper):
        Exclusive: ClassVar[CommandSubscribe.SubType]
        Shared: ClassVar[CommandSubscribe.SubType]
        Failover: ClassVar[CommandSubscribe.SubType]
        Key_Shared: ClassVar[CommandSubscribe.SubType]
    Exclusive: ClassVar[CommandSubscribe.SubType]
    Shared: ClassVar[CommandSubscribe.SubType]
    Failover: ClassVar[CommandSubscribe.SubType]
    Key_Shared: ClassVar[CommandSubscribe.SubType]

    class InitialPosition(int, metaclass=EnumTypeWrapper):
        Latest: ClassVar[CommandSubscribe.InitialPosition]
        Earliest: ClassVar[CommandSubscribe.InitialPosition]
    Latest: ClassVar[CommandSubscribe.InitialPosition]
    Earliest: ClassVar[CommandSubscribe.InitialPosition]
    topic: str
    subscription: str
    subType: int
    consumer_id: int
    request_id: int
    consumer_name: str
    priority_level: int
    durable: bool
    @property
    def start_message_id(self) -> MessageIdData: ...
    start_message_rollback_duration_sec: int
    initialPosition: CommandSubscribe.InitialPosition
    force_topic_creation: bool
    @property
    def metadata(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    @property
    def subscription_properties(self) -> RepeatedCompositeFieldContainer[_KeyValue]: ...
    read_compacted: bool
    @property
    def schema(self) -> Schema: ...
    replicate_subscription_state: bool
    @property
    def keySharedMeta(self) -> KeySharedMeta: ...
    consumer_epoch: int
    def __init__(
        self,
        *,
        topic: str | None = ...,
        subscription: str | None = ...,
        subType: int | None = ...,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        consumer_name: str | None = ...,
        priority_level: int | None = ...,
        durable: bool | None = ...,
        start_message_id: MessageIdData | Mapping[str, Any] | None = ...,
        start_message_rollback_duration_sec: int | None = ...,
        initialPosition: CommandSubscribe.InitialPosition | int | str | None = ...,
        force_topic_creation: bool | None = ...,
        metadata: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
        subscription_properties: Iterable[_KeyValue | Mapping[str, Any]] | None = ...,
        read_compacted: bool | None = ...,
        schema: Schema | Mapping[str, Any] | None = ...,
        replicate_subscription_state: bool | None = ...,
        keySharedMeta: KeySharedMeta | Mapping[str, Any] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandFlow(Message):
    consumer_id: int
    messagePermits: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        messagePermits: int | None = ...,
    ) -> None: ...

class CommandMessage(Message):
    consumer_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    redelivery_count: int
    @property
    def ack_set(self) -> RepeatedScalarFieldContainer[int]: ...
    consumer_epoch: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        message_id: MessageIdData | Mapping[str, Any] | None = ...,
        redelivery_count: int | None = ...,
        ack_set: Iterable[int] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandAck(Message):

    class AckType(int, metaclass=EnumTypeWrapper):
        Individual: ClassVar[CommandAck.AckType]
        Cumulative: ClassVar[CommandAck.AckType]
    Individual: ClassVar[CommandAck.AckType]
    Cumulative: ClassVar[CommandAck.AckType]

    class ValidationError(int, metaclass=EnumTypeWrapper):
        UncompressedSizeCorruption: ClassVar[CommandAck.ValidationError]
        DecompressionError: ClassVar[CommandAck.ValidationError]
        ChecksumMismatch: ClassVar[CommandAck.ValidationError]
        BatchDeSerializeError: ClassVar[CommandAck.ValidationError]
        DecryptionError: ClassVar[CommandAck.ValidationError]
    UncompressedSizeCorruption: ClassVar[CommandAck.ValidationError]
    DecompressionError: ClassVar[CommandAck.ValidationError]
    ChecksumMismatch: ClassVar[CommandAck.ValidationError]
    BatchDeSerializeError: ClassVar[CommandAck.ValidationError]
    DecryptionError: ClassVar[CommandAck.ValidationError]
    consumer_id: int
    ack_type: CommandAck.AckType
    @property
    def message_id(self) -> RepeatedCompositeFieldContainer[MessageIdData]: ...
    validation_error: CommandAck.ValidationError
    @property
    def properties(self) -> RepeatedCompositeFieldContainer[KeyLongValue]: ...
    txnid_least_bits: int
    txnid_most_bits: int
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        ack_type: CommandAck.AckType | int | str | None = ...,
        message_id: Iterable[MessageIdData | Mapping[str, Any]] | None = ...,
        validation_error: CommandAck.ValidationError | int | str | None = ...,
        properties: Iterable[KeyLongValue | Mapping[str, Any]] | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandAckResponse(Message):
    consumer_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandRedeliverUnacknowledgedMessages(Message):
    consumer_id: int
    @property
    def message_ids(self) -> RepeatedCompositeFieldContainer[MessageIdData]: ...
    consumer_epoch: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        message_ids: Iterable[MessageIdData | Mapping[str, Any]] | None = ...,
        consumer_epoch: int | None = ...,
    ) -> None: ...

class CommandActiveConsumerChange(Message):
    consumer_id: int
    is_active: bool
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        is_active: bool | None = ...,
    ) -> None: ...

class CommandReachedEndOfTopic(Message):
    consumer_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
    ) -> None: ...

class CommandSeek(Message):
    consumer_id: int
    request_id: int
    @property
    def message_id(self) -> MessageIdData: ...
    message_publish_time: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        message_id: MessageIdData | Mapping[str, Any] | None = ...,
        message_publish_time: int | None = ...,
    ) -> None: ...

class CommandGetLastMessageId(Message):
    consumer_id: int
    request_id: int
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
    ) -> None: ...

class CommandGetLastMessageIdResponse(Message):
    @property
    def last_message_id(self) -> MessageIdData: ...
    request_id: int
    @property
    def consumer_mark_delete_position(self) -> MessageIdData: ...
    def __init__(
        self,
        *,
        last_message_id: MessageIdData | Mapping[str, Any] | None = ...,
        request_id: int | None = ...,
        consumer_mark_delete_position: MessageIdData | Mapping[str, Any] | None = ...,
    ) -> None: ...

class CommandUnsubscribe(Message):
    consumer_id: int
    request_id: int
    force: bool
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        force: bool | None = ...,
    ) -> None: ...

class CommandCloseConsumer(Message):
    consumer_id: int
    request_id: int
    assignedBrokerServiceUrl: str
    assignedBrokerServiceUrlTls: str
    def __init__(
        self,
        *,
        consumer_id: int | None = ...,
        request_id: int | None = ...,
        assignedBrokerServiceUrl: str | None = ...,
        assignedBrokerServiceUrlTls: str | None = ...,
    ) -> None: ...

class CommandConsumerStats(Message):
    request_id: int
    consumer_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        consumer_id: int | None = ...,
    ) -> None: ...

class CommandConsumerStatsResponse(Message):
    request_id: int
    error_code: ServerError
    error_message: str
    consumerName: str
    type: str
    address: str
    connectedSince: str
    availablePermits: int
    unackedMessages: int
    blockedConsumerOnUnackedMsgs: bool
    msgBacklog: int
    msgRateOut: float
    msgThroughputOut: float
    msgRateRedeliver: float
    msgRateExpired: float
    messageAckRate: float
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: ServerError | int | str | None = ...,
        error_message: str | None = ...,
        consumerName: str | None = ...,
        type: str | None = ...,
        address: str | None = ...,
        connectedSince: str | None = ...,
        availablePermits: int | None = ...,
        unackedMessages: int | None = ...,
        blockedConsumerOnUnackedMsgs: bool | None = ...,
        msgBacklog: int | None = ...,
        msgRateOut: float | None = ...,
        msgThroughputOut: float | None = ...,
        msgRateRedeliver: float | None = ...,
        msgRateExpired: float | None = ...,
        messageAckRate: float | None = ...,
    ) -> None: ...

class CommandGetSchema(Message):
    request_id: int
    topic: str
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topic: str | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class CommandGetSchemaResponse(Message):
    request_id: int
    error_code: ServerError
    error_message: str
    @property
    def schema(self) -> Schema: ...
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: ServerError | int | str | None = ...,
        error_message: str | None = ...,
        schema: Schema | Mapping[str, Any] | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class CommandGetOrCreateSchema(Message):
    request_id: int
    topic: str
    @property
    def schema(self) -> Schema: ...
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        topic: str | None = ...,
        schema: Schema | Mapping[str, Any] | None = ...,
    ) -> None: ...

class CommandGetOrCreateSchemaResponse(Message):
    request_id: int
    error_code: ServerError
    error_message: str
    schema_version: bytes
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error_code: ServerError | int | str | None = ...,
        error_message: str | None = ...,
        schema_version: bytes | None = ...,
    ) -> None: ...

class Subscription(Message):
    topic: str
    subscription: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        subscription: str | None = ...,
    ) -> None: ...

class CommandTcClientConnectRequest(Message):
    request_id: int
    tc_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        tc_id: int | None = ...,
    ) -> None: ...

class CommandTcClientConnectResponse(Message):
    request_id: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandNewTxn(Message):
    request_id: int
    txn_ttl_seconds: int
    tc_id: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txn_ttl_seconds: int | None = ...,
        tc_id: int | None = ...,
    ) -> None: ...

class CommandNewTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandAddPartitionToTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    @property
    def partitions(self) -> RepeatedScalarFieldContainer[str]: ...
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        partitions: Iterable[str] | None = ...,
    ) -> None: ...

class CommandAddPartitionToTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandAddSubscriptionToTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    @property
    def subscription(self) -> RepeatedCompositeFieldContainer[Subscription]: ...
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        subscription: Iterable[Subscription | Mapping[str, Any]] | None = ...,
    ) -> None: ...

class CommandAddSubscriptionToTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxn(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    txn_action: TxnAction
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        txn_action: TxnAction | int | str | None = ...,
    ) -> None: ...

class CommandEndTxnResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxnOnPartition(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    topic: str
    txn_action: TxnAction
    txnid_least_bits_of_low_watermark: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        topic: str | None = ...,
        txn_action: TxnAction | int | str | None = ...,
        txnid_least_bits_of_low_watermark: int | None = ...,
    ) -> None: ...

class CommandEndTxnOnPartitionResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class CommandEndTxnOnSubscription(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    @property
    def subscription(self) -> Subscription: ...
    txn_action: TxnAction
    txnid_least_bits_of_low_watermark: int
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        subscription: Subscription | Mapping[str, Any] | None = ...,
        txn_action: TxnAction | int | str | None = ...,
        txnid_least_bits_of_low_watermark: int | None = ...,
    ) -> None: ...

class CommandEndTxnOnSubscriptionResponse(Message):
    request_id: int
    txnid_least_bits: int
    txnid_most_bits: int
    error: ServerError
    message: str
    def __init__(
        self,
        *,
        request_id: int | None = ...,
        txnid_least_bits: int | None = ...,
        txnid_most_bits: int | None = ...,
        error: ServerError | int | str | None = ...,
        message: str | None = ...,
    ) -> None: ...

class BaseCommand(Message):

    class Type(int, metaclass=EnumTypeWrapper):
        CONNECT: ClassVar[BaseCommand.Type]
        CONNECTED: ClassVar[BaseCommand.Type]
        SUBSCRIBE: ClassVar[BaseCommand.Type]
        PRODUCER: ClassVar[BaseCommand.Type]
        SEND: ClassVar[BaseCommand.Type]
        SEND_RECEIPT: ClassVar[BaseCommand.Type]
        SEND_ERROR: ClassVar[BaseCommand.Type]
        MESSAGE: ClassVar[BaseCommand.Type]
        ACK: ClassVar[BaseCommand.Type]
        FLOW: ClassVar[BaseCommand.Type]
        UNSUBSCRIBE: ClassVar[BaseCommand.Type]
        SUCCESS: ClassVar[BaseCommand.Type]
        ERROR: ClassVar[BaseCommand.Type]
        CLOSE_PRODUCER: ClassVar[BaseCommand.Type]
        CLOSE_CONSUMER: ClassVar[BaseCommand.Type]
        PRODUCER_SUCCESS: ClassVar[BaseCommand.Type]
        PING: ClassVar[BaseCommand.Type]
        PONG: ClassVar[BaseCommand.Type]
        REDELIVER_UNACKNOWLEDGED_MESSAGES: ClassVar[BaseCommand.Type]
        PARTITIONED_METADATA: ClassVar[BaseCommand.Type]
        PARTITIONED_METADATA_RESPONSE: ClassVar[BaseCommand.Type]
        LOOKUP: ClassVar[BaseCommand.Type]
        LOOKUP_RESPONSE: ClassVar[BaseCommand.Type]
        CONSUMER_STATS: ClassVar[BaseCommand.Type]
        CONSUMER_STATS_RESPONSE: ClassVar[BaseCommand.Type]
        REACHED_END_OF_TOPIC: ClassVar[BaseCommand.Type]
        SEEK: ClassVar[BaseCommand.Type]
        GET_LAST_MESSAGE_ID: ClassVar[BaseCommand.Type]
        GET_LAST_MESSAGE_ID_RESPONSE: ClassVar[BaseCommand.Type]
        ACTIVE_CONSUMER_CHANGE: ClassVar[BaseCommand.Type]
        GET_TOPICS_OF_NAMESPACE: ClassVar[BaseCommand.Type]
        GET_TOPICS_OF_NAMESPACE_RESPONSE: ClassVar[BaseCommand.Type]
        GET_SCHEMA: ClassVar[BaseCommand.Type]
        GET_SCHEMA_RESPONSE: ClassVar[BaseCommand.Type]
        AUTH_CHALLENGE: ClassVar[BaseCommand.Type]
        AUTH_RESPONSE: ClassVar[BaseCommand.Type]
        ACK_RESPONSE: ClassVar[BaseCommand.Type]
        GET_OR_CREATE_SCHEMA: ClassVar[BaseCommand.Type]
        GET_OR_CREATE_SCHEMA_RESPONSE: ClassVar[BaseCommand.Type]
        NEW_TXN: ClassVar[BaseCommand.Type]
        NEW_TXN_RESPONSE: ClassVar[BaseCommand.Type]
        ADD_PARTITION_TO_TXN: ClassVar[BaseCommand.Type]
        ADD_PARTITION_TO_TXN_RESPONSE: ClassVar[BaseCommand.Type]
        ADD_SUBSCRIPTION_TO_TXN: ClassVar[BaseCommand.Type]
        ADD_SUBSCRIPTION_TO_TXN_RESPONSE: ClassVar[BaseCommand.Type]
        END_TXN: ClassVar[BaseCommand.Type]
        END_TXN_RESPONSE: ClassVar[BaseCommand.Type]
        END_TXN_ON_PARTITION: ClassVar[BaseCommand.Type]
        END_TXN_ON_PARTITION_RESPONSE: ClassVar[BaseCommand.Type]
        END_TXN_ON_SUBSCRIPTION: ClassVar[BaseCommand.Type]
        END_TXN_ON_SUBSCRIPTION_RESPONSE: ClassVar[BaseCommand.Type]
        TC_CLIENT_CONNECT_REQUEST: ClassVar[BaseCommand.Type]
        TC_CLIENT_CONNECT_RESPONSE: ClassVar[BaseCommand.Type]
        WATCH_TOPIC_LIST: ClassVar[BaseCommand.Type]
        WATCH_TOPIC_LIST_SUCCESS: ClassVar[BaseCommand.Type]
        WATCH_TOPIC_UPDATE: ClassVar[BaseCommand.Type]
        WATCH_TOPIC_LIST_CLOSE: ClassVar[BaseCommand.Type]
        TOPIC_MIGRATED: ClassVar[BaseCommand.Type]
    CONNECT: ClassVar[BaseCommand.Type]
    CONNECTED: ClassVar[BaseCommand.Type]
    SUBSCRIBE: ClassVar[BaseCommand.Type]
    PRODUCER: ClassVar[BaseCommand.Type]
    SEND: ClassVar[BaseCommand.Type]
    SEND_RECEIPT: ClassVar[BaseCommand.Type]
    SEND_ERROR: ClassVar[BaseCommand.Type]
    MESSAGE: ClassVar[BaseCommand.Type]
    ACK: ClassVar[BaseCommand.Type]
    FLOW: ClassVar[BaseCommand.Type]
    UNSUBSCRIBE: ClassVar[BaseCommand.Type]
    SUCCESS: ClassVar[BaseCommand.Type]
    ERROR: ClassVar[BaseCommand.Type]
    CLOSE_PRODUCER: ClassVar[BaseCommand.Type]
    CLOSE_CONSUMER: ClassVar[BaseCommand.Type]
    PRODUCER_SUCCESS: ClassVar[BaseCommand.Type]
    PING: ClassVar[BaseCommand.Type]
    PONG: ClassVar[BaseCommand.Type]
    REDELIVER_UNACKNOWLEDGED_MESSAGES: ClassVar[BaseCommand.Type]
    PARTITIONED_METADATA: ClassVar[BaseCommand.Type]
    PARTITIONED_METADATA_RESPONSE: ClassVar[BaseCommand.Type]
    LOOKUP: ClassVar[BaseCommand.Type]
    LOOKUP_RESPONSE: ClassVar[BaseCommand.Type]
    CONSUMER_STATS: ClassVar[BaseCommand.Type]
    CONSUMER_STATS_RESPONSE: ClassVar[BaseCommand.Type]
    REACHED_END_OF_TOPIC: ClassVar[BaseCommand.Type]
    SEEK: ClassVar[BaseCommand.Type]
    GET_LAST_MESSAGE_ID: ClassVar[BaseCommand.Type]
    GET_LAST_MESSAGE_ID_RESPONSE: ClassVar[BaseCommand.Type]
    ACTIVE_CONSUMER_CHANGE: ClassVar[BaseCommand.Type]
    GET_TOPICS_OF_NAMESPACE: ClassVar[BaseCommand.Type]
    GET_TOPICS_OF_NAMESPACE_RESPONSE: ClassVar[BaseCommand.Type]
    GET_SCHEMA: ClassVar[BaseCommand.Type]
    GET_SCHEMA_RESPONSE: ClassVar[BaseCommand.Type]
    AUTH_CHALLENGE: ClassVar[BaseCommand.Type]
    AUTH_RESPONSE: ClassVar[BaseCommand.Type]
    ACK_RESPONSE: ClassVar[BaseCommand.Type]
    GET_OR_CREATE_SCHEMA: ClassVar[BaseCommand.Type]
    GET_OR_CREATE_SCHEMA_RESPONSE: ClassVar[BaseCommand.Type]
    NEW_TXN: ClassVar[BaseCommand.Type]
    NEW_TXN_RESPONSE: ClassVar[BaseCommand.Type]
    ADD_PARTITION_TO_TXN: ClassVar[BaseCommand.Type]
    ADD_PARTITION_TO_TXN_RESPONSE: ClassVar[BaseCommand.Type]
    ADD_SUBSCRIPTION_TO_TXN: ClassVar[BaseCommand.Type]
    ADD_SUBSCRIPTION_TO_TXN_RESPONSE: ClassVar[BaseCommand.Type]
    END_TXN: ClassVar[BaseCommand.Type]
    END_TXN_RESPONSE: ClassVar[BaseCommand.Type]
    END_TXN_ON_PARTITION: ClassVar[BaseCommand.Type]
    END_TXN_ON_PARTITION_RESPONSE: ClassVar[BaseCommand.Type]
    END_TXN_ON_SUBSCRIPTION: ClassVar[BaseCommand.Type]
    END_TXN_ON_SUBSCRIPTION_RESPONSE: ClassVar[BaseCommand.Type]
    TC_CLIENT_CONNECT_REQUEST: ClassVar[BaseCommand.Type]
    TC_CLIENT_CONNECT_RESPONSE: ClassVar[BaseCommand.Type]
    WATCH_TOPIC_LIST: ClassVar[BaseCommand.Type]
    WATCH_TOPIC_LIST_SUCCESS: ClassVar[BaseCommand.Type]
    WATCH_TOPIC_UPDATE: ClassVar[BaseCommand.Type]
    WATCH_TOPIC_LIST_CLOSE: ClassVar[BaseCommand.Type]
    TOPIC_MIGRATED: ClassVar[BaseCommand.Type]
    type: BaseCommand.Type
    @property
    def connect(self) -> CommandConnect: ...
    @property
    def connected(self) -> CommandConnected: ...
    @property
    def subscribe(self) -> CommandSubscribe: ...
    @property
    def producer(self) -> CommandProducer: ...
    @property
    def send(self) -> CommandSend: ...
    @property
    def send_receipt(self) -> CommandSendReceipt: ...
    @property
    def send_error(self) -> CommandSendError: ...
    @property
    def message(self) -> CommandMessage: ...
    @property
    def ack(self) -> CommandAck: ...
    @property
    def flow(self) -> CommandFlow: ...
    @property
    def unsubscribe(self) -> CommandUnsubscribe: ...
    @property
    def success(self) -> CommandSuccess: ...
    @property
    def error(self) -> CommandError: ...
    @property
    def close_producer(self) -> CommandCloseProducer: ...
    @property
    def close_consumer(self) -> CommandCloseConsumer: ...
    @property
    def producer_success(self) -> CommandProducerSuccess: ...
    @property
    def ping(self) -> CommandPing: ...
    @property
    def pong(self) -> CommandPong: ...
    @property
    def redeliverUnacknowledgedMessages(self) -> CommandRedeliverUnacknowledgedMessages: ...
    @property
    def partitionMetadata(self) -> CommandPartitionedTopicMetadata: ...
    @property
    def partitionMetadataResponse(self) -> CommandPartitionedTopicMetadataResponse: ...
    @property
    def lookupTopic(self) -> CommandLookupTopic: ...
    @property
    def lookupTopicResponse(self) -> CommandLookupTopicResponse: ...
    @property
    def consumerStats(self) -> CommandConsumerStats: ...
    @property
    def consumerStatsResponse(self) -> CommandConsumerStatsResponse: ...
    @property
    def reachedEndOfTopic(self) -> CommandReachedEndOfTopic: ...
    @property
    def seek(self) -> CommandSeek: ...
    @property
    def getLastMessageId(self) -> CommandGetLastMessageId: ...
    @property
    def getLastMessageIdResponse(self) -> CommandGetLastMessageIdResponse: ...
    @property
    def active_consumer_change(self) -> CommandActiveConsumerChange: ...
    @property
    def getTopicsOfNamespace(self) -> CommandGetTopicsOfNamespace: ...
    @property
    def getTopicsOfNamespaceResponse(self) -> CommandGetTopicsOfNamespaceResponse: ...
    @property
    def getSchema(self) -> CommandGetSchema: ...
    @property
    def getSchemaResponse(self) -> CommandGetSchemaResponse: ...
    @property
    def authChallenge(self) -> CommandAuthChallenge: ...
    @property
    def authResponse(self) -> CommandAuthResponse: ...
    @property
    def ackResponse(self) -> CommandAckResponse: ...
    @property
    def getOrCreateSchema(self) -> CommandGetOrCreateSchema: ...
    @property
    def getOrCreateSchemaResponse(self) -> CommandGetOrCreateSchemaResponse: ...
    @property
    def newTxn(self) -> CommandNewTxn: ...
    @property
    def newTxnResponse(self) -> CommandNewTxnResponse: ...
    @property
    def addPartitionToTxn(self) -> CommandAddPartitionToTxn: ...
    @property
    def addPartitionToTxnResponse(self) -> CommandAddPartitionToTxnResponse: ...
    @property
    def addSubscriptionToTxn(self) -> CommandAddSubscriptionToTxn: ...
    @property
    def addSubscriptionToTxnResponse(self) -> CommandAddSubscriptionToTxnResponse: ...
    @property
    def endTxn(self) -> CommandEndTxn: ...
    @property
    def endTxnResponse(self) -> CommandEndTxnResponse: ...
    @property
    def endTxnOnPartition(self) -> CommandEndTxnOnPartition: ...
    @property
    def endTxnOnPartitionResponse(self) -> CommandEndTxnOnPartitionResponse: ...
    @property
    def endTxnOnSubscription(self) -> CommandEndTxnOnSubscription: ...
    @property
    def endTxnOnSubscriptionResponse(self) -> CommandEndTxnOnSubscriptionResponse: ...
    @property
    def tcClientConnectRequest(self) -> CommandTcClientConnectRequest: ...
    @property
    def tcClientConnectResponse(self) -> CommandTcClientConnectResponse: ...
    @property
    def watchTopicList(self) -> CommandWatchTopicList: ...
    @property
    def watchTopicListSuccess(self) -> CommandWatchTopicListSuccess: ...
    @property
    def watchTopicUpdate(self) -> CommandWatchTopicUpdate: ...
    @property
    def watchTopicListClose(self) -> CommandWatchTopicListClose: ...
    @property
    def topicMigrated(self) -> CommandTopicMigrated: ...
    def __init__(
        self,
        *,
        type: BaseCommand.Type | int | str | None = ...,
        connect: CommandConnect | Mapping[str, Any] | None = ...,
        connected: CommandConnected | Mapping[str, Any] | None = ...,
        subscribe: CommandSubscribe | Mapping[str, Any] | None = ...,
        producer: CommandProducer | Mapping[str, Any] | None = ...,
        send: CommandSend | Mapping[str, Any] | None = ...,
        send_receipt: CommandSendReceipt | Mapping[str, Any] | None = ...,
        send_error: CommandSendError | Mapping[str, Any] | None = ...,
        message: CommandMessage | Mapping[str, Any] | None = ...,
        ack: CommandAck | Mapping[str, Any] | None = ...,
        flow: CommandFlow | Mapping[str, Any] | None = ...,
        unsubscribe: CommandUnsubscribe | Mapping[str, Any] | None = ...,
        success: CommandSuccess | Mapping[str, Any] | None = ...,
        error: CommandError | Mapping[str, Any] | None = ...,
        close_producer: CommandCloseProducer | Mapping[str, Any] | None = ...,
        close_consumer: CommandCloseConsumer | Mapping[str, Any] | None = ...,
        producer_success: CommandProducerSuccess | Mapping[str, Any] | None = ...,
        ping: CommandPing | Mapping[str, Any] | None = ...,
        pong: CommandPong | Mapping[str, Any] | None = ...,
        redeliverUnacknowledgedMessages: CommandRedeliverUnacknowledgedMessages | Mapping[str, Any] | None = ...,
        partitionMetadata: CommandPartitionedTopicMetadata | Mapping[str, Any] | None = ...,
        partitionMetadataResponse: CommandPartitionedTopicMetadataResponse | Mapping[str, Any] | None = ...,
        lookupTopic: CommandLookupTopic | Mapping[str, Any] | None = ...,
        lookupTopicResponse: CommandLookupTopicResponse | Mapping[str, Any] | None = ...,
        consumerStats: CommandConsumerStats | Mapping[str, Any] | None = ...,
        consumerStatsResponse: CommandConsumerStatsResponse | Mapping[str, Any] | None = ...,
        reachedEndOfTopic: CommandReachedEndOfTopic | Mapping[str, Any] | None = ...,
        seek: CommandSeek | Mapping[str, Any] | None = ...,
        getLastMessageId: CommandGetLastMessageId | Mapping[str, Any] | None = ...,
        getLastMessageIdResponse: CommandGetLastMessageIdResponse | Mapping[str, Any] | None = ...,
        active_consumer_change: CommandActiveConsumerChange | Mapping[str, Any] | None = ...,
        getTopicsOfNamespace: CommandGetTopicsOfNamespace | Mapping[str, Any] | None = ...,
        getTopicsOfNamespaceResponse: CommandGetTopicsOfNamespaceResponse | Mapping[str, Any] | None = ...,
        getSchema: CommandGetSchema | Mapping[str, Any] | None = ...,
        getSchemaResponse: CommandGetSchemaResponse | Mapping[str, Any] | None = ...,
        authChallenge: CommandAuthChallenge | Mapping[str, Any] | None = ...,
        authResponse: CommandAuthResponse | Mapping[str, Any] | None = ...,
        ackResponse: CommandAckResponse | Mapping[str, Any] | None = ...,
        getOrCreateSchema: CommandGetOrCreateSchema | Mapping[str, Any] | None = ...,
        getOrCreateSchemaResponse: CommandGetOrCreateSchemaResponse | Mapping[str, Any] | None = ...,
        newTxn: CommandNewTxn | Mapping[str, Any] | None = ...,
        newTxnResponse: CommandNewTxnResponse | Mapping[str, Any] | None = ...,
        addPartitionToTxn: CommandAddPartitionToTxn | Mapping[str, Any] | None = ...,
        addPartitionToTxnResponse: CommandAddPartitionToTxnResponse | Mapping[str, Any] | None = ...,
        addSubscriptionToTxn: CommandAddSubscriptionToTxn | Mapping[str, Any] | None = ...,
        addSubscriptionToTxnResponse: CommandAddSubscriptionToTxnResponse | Mapping[str, Any] | None = ...,
        endTxn: CommandEndTxn | Mapping[str, Any] | None = ...,
        endTxnResponse: CommandEndTxnResponse | Mapping[str, Any] | None = ...,
        endTxnOnPartition: CommandEndTxnOnPartition | Mapping[str, Any] | None = ...,
        endTxnOnPartitionResponse: CommandEndTxnOnPartitionResponse | Mapping[str, Any] | None = ...,
        endTxnOnSubscription: CommandEndTxnOnSubscription | Mapping[str, Any] | None = ...,
        endTxnOnSubscriptionResponse: CommandEndTxnOnSubscriptionResponse | Mapping[str, Any] | None = ...,
        tcClientConnectRequest: CommandTcClientConnectRequest | Mapping[str, Any] | None = ...,
        tcClientConnectResponse: CommandTcClientConnectResponse | Mapping[str, Any] | None = ...,
        watchTopicList: CommandWatchTopicList | Mapping[str, Any] | None = ...,
        watchTopicListSuccess: CommandWatchTopicListSuccess | Mapping[str, Any] | None = ...,
        watchTopicUpdate: CommandWatchTopicUpdate | Mapping[str, Any] | None = ...,
        watchTopicListClose: CommandWatchTopicListClose | Mapping[str, Any] | None = ...,
        topicMigrated: CommandTopicMigrated | Mapping[str, Any] | None = ...,
    ) -> None: ...
