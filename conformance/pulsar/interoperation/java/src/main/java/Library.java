import com.google.protobuf.Duration;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerCryptoFailureAction;
import org.apache.pulsar.client.api.CryptoKeyReader;
import org.apache.pulsar.client.api.EncryptionKeyInfo;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.JsonNode;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.pulsar.shade.com.fasterxml.jackson.databind.node.ObjectNode;

/** The official Java client, controlled by JSON: one line per call, and one line per answer. */
public final class Library {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int BATCH_S = 5;

    private final PulsarClient client;
    private final Map<Integer, Producer<Object>> producers = new HashMap<>();
    private final Map<Integer, Consumer<Object>> consumers = new HashMap<>();
    private final Map<Integer, String> schemas = new HashMap<>();
    private final Set<Integer> keyless = new HashSet<>();
    private final Map<String, Message<Object>> got = new HashMap<>();
    private int made;

    private Library(PulsarClient client) {
        this.client = client;
    }

    /** Keys from PEM files. */
    private static final class Keys implements CryptoKeyReader {
        private final JsonNode keys;

        Keys(JsonNode keys) {
            this.keys = keys;
        }

        @Override
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return read("public", name);
        }

        @Override
        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return read("private", name);
        }

        private EncryptionKeyInfo read(String half, String name) {
            if (!keys.get(half).has(name)) {
                // An exception here would close the connection that all consumers share.
                return new EncryptionKeyInfo(new byte[0], Map.of());
            }
            try {
                java.nio.file.Path file = java.nio.file.Path.of(keys.get(half).get(name).asText());
                return new EncryptionKeyInfo(java.nio.file.Files.readAllBytes(file), Map.of());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Schema<Object> schema(String name) {
        Schema<?> found =
                switch (name) {
                    case "bytes" -> Schema.BYTES;
                    case "string" -> Schema.STRING;
                    case "protobuf" -> Schema.PROTOBUF_NATIVE(Duration.class);
                    case "json older" -> Schema.JSON(older.Order.class);
                    case "json newer" -> Schema.JSON(newer.Order.class);
                    case "avro older" -> Schema.AVRO(older.Order.class);
                    case "avro newer" -> Schema.AVRO(newer.Order.class);
                    default -> throw new IllegalArgumentException("schema " + name);
                };
        return (Schema<Object>) found;
    }

    private static Object value(String schema, JsonNode plain) throws Exception {
        if (plain.isNull()) {
            return null;
        }
        if (schema.equals("bytes")) {
            return Base64.getDecoder().decode(plain.asText());
        }
        if (schema.equals("string")) {
            return plain.asText();
        }
        if (schema.equals("protobuf")) {
            return Duration.newBuilder()
                    .setSeconds(plain.path("seconds").asLong())
                    .setNanos(plain.path("nanos").asInt())
                    .build();
        }
        Class<?> kind = schema.endsWith("older") ? older.Order.class : newer.Order.class;
        return JSON.treeToValue(plain, kind);
    }

    private static JsonNode plain(Object value) {
        if (value instanceof byte[] bytes) {
            return JSON.getNodeFactory().textNode(Base64.getEncoder().encodeToString(bytes));
        }
        if (value instanceof Duration duration) {
            ObjectNode fields = JSON.createObjectNode();
            if (duration.getSeconds() != 0) {
                fields.put("seconds", duration.getSeconds());
            }
            if (duration.getNanos() != 0) {
                fields.put("nanos", duration.getNanos());
            }
            return fields;
        }
        return JSON.valueToTree(value);
    }

    private JsonNode carryOut(JsonNode call) throws Exception {
        return switch (call.get("do").asText()) {
            case "sender" -> sender(call);
            case "receiver" -> receiver(call);
            case "send" -> send(call);
            case "receive" -> receive(call);
            case "acknowledge" -> {
                Consumer<Object> consumer = consumers.get(call.get("handle").asInt());
                Message<Object> message = got.get(call.get("id").asText());
                if (call.get("cumulative").asBoolean()) {
                    consumer.acknowledgeCumulative(message);
                } else {
                    consumer.acknowledge(message);
                }
                yield JSON.nullNode();
            }
            case "negative acknowledge" -> {
                Message<Object> message = got.get(call.get("id").asText());
                consumers.get(call.get("handle").asInt()).negativeAcknowledge(message);
                yield JSON.nullNode();
            }
            case "seek" -> {
                byte[] id = Base64.getDecoder().decode(call.get("id").asText());
                consumers.get(call.get("handle").asInt()).seek(MessageId.fromByteArray(id));
                yield JSON.nullNode();
            }
            case "close" -> {
                int handle = call.get("handle").asInt();
                if (producers.containsKey(handle)) {
                    producers.remove(handle).close();
                } else {
                    consumers.remove(handle).close();
                }
                yield JSON.nullNode();
            }
            default -> throw new IllegalArgumentException(call.toString());
        };
    }

    private JsonNode sender(JsonNode call) throws Exception {
        String schema = call.get("schema").asText();
        ProducerBuilder<Object> builder =
                client.newProducer(schema(schema))
                        .topic(call.get("topic").asText())
                        .compressionType(CompressionType.valueOf(call.get("compression").asText()));
        String packing = call.get("packing").asText();
        boolean batches = packing.endsWith("batch");
        builder.enableBatching(batches).enableChunking(packing.equals("chunks"));
        if (batches) {
            builder.batchingMaxPublishDelay(BATCH_S, TimeUnit.SECONDS);
        }
        if (packing.equals("key batch")) {
            builder.batcherBuilder(BatcherBuilder.KEY_BASED);
        }
        if (call.hasNonNull("keys")) {
            builder.cryptoKeyReader(new Keys(call.get("keys")));
            call.get("keys").get("public").fieldNames().forEachRemaining(builder::addEncryptionKey);
        }
        if (!call.get("name").asText().isEmpty()) {
            builder.producerName(call.get("name").asText());
        }
        made += 1;
        producers.put(made, builder.create());
        schemas.put(made, schema);
        return JSON.getNodeFactory().numberNode(made);
    }

    private JsonNode receiver(JsonNode call) throws Exception {
        ConsumerBuilder<Object> builder =
                client.newConsumer(schema(call.get("schema").asText()))
                        .topic(call.get("topic").asText())
                        .subscriptionName(call.get("subscription").asText())
                        .subscriptionType(SubscriptionType.valueOf(call.get("type").asText()))
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .receiverQueueSize(call.get("queue_size").asInt())
                        .enableBatchIndexAcknowledgment(call.get("batch_index_acks").asBoolean())
                        .isAckReceiptEnabled(true)
                        .negativeAckRedeliveryDelay(
                                (long) (call.get("negative_ack_delay_s").asDouble() * 1000),
                                TimeUnit.MILLISECONDS)
                        .cryptoFailureAction(
                                ConsumerCryptoFailureAction.valueOf(
                                        call.get("on_crypto_failure").asText()));
        if (call.get("ack_timeout_s").asDouble() > 0) {
            builder.ackTimeout(
                            (long) (call.get("ack_timeout_s").asDouble() * 1000),
                            TimeUnit.MILLISECONDS)
                    .ackTimeoutTickTime(100, TimeUnit.MILLISECONDS);
        }
        if (call.hasNonNull("keys")) {
            builder.cryptoKeyReader(new Keys(call.get("keys")));
        } else {
            keyless.add(made + 1);
        }
        if (!call.get("name").asText().isEmpty()) {
            builder.consumerName(call.get("name").asText());
        }
        made += 1;
        consumers.put(made, builder.subscribe());
        return JSON.getNodeFactory().numberNode(made);
    }

    private JsonNode send(JsonNode call) throws Exception {
        int handle = call.get("handle").asInt();
        Producer<Object> producer = producers.get(handle);
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (JsonNode each : call.get("messages")) {
            TypedMessageBuilder<Object> message = producer.newMessage();
            message.value(value(schemas.get(handle), each.get("value")));
            if (each.hasNonNull("key_bytes")) {
                message.keyBytes(Base64.getDecoder().decode(each.get("key_bytes").asText()));
            } else if (each.hasNonNull("key")) {
                message.key(each.get("key").asText());
            }
            if (each.hasNonNull("ordering_key")) {
                byte[] key = each.get("ordering_key").asText().getBytes(StandardCharsets.UTF_8);
                message.orderingKey(key);
            }
            each.get("properties")
                    .fields()
                    .forEachRemaining(one -> message.property(one.getKey(), one.getValue().asText()));
            if (each.get("event_time_ms").asLong() > 0) {
                message.eventTime(each.get("event_time_ms").asLong());
            }
            if (each.hasNonNull("sequence_id")) {
                message.sequenceId(each.get("sequence_id").asLong());
            }
            if (each.get("deliver_after_s").asDouble() > 0) {
                long after = (long) (each.get("deliver_after_s").asDouble() * 1000);
                message.deliverAfter(after, TimeUnit.MILLISECONDS);
            }
            sent.add(message.sendAsync());
        }
        producer.flush();
        var ids = JSON.createArrayNode();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(Base64.getEncoder().encodeToString(each.get().toByteArray()));
        }
        return ids;
    }

    private JsonNode receive(JsonNode call) throws Exception {
        int within = (int) (call.get("within_s").asDouble() * 1000);
        Consumer<Object> consumer = consumers.get(call.get("handle").asInt());
        Message<Object> message = consumer.receive(within, TimeUnit.MILLISECONDS);
        if (message == null) {
            return JSON.nullNode();
        }
        ObjectNode said = JSON.createObjectNode();
        String id = Base64.getEncoder().encodeToString(message.getMessageId().toByteArray());
        got.put(id, message);
        said.put("id", id);
        // The library does not distinguish what it has decrypted from what it could not.
        boolean isRaw =
                message.getEncryptionCtx().isPresent()
                        && keyless.contains(call.get("handle").asInt());
        boolean isNull = !isRaw && message.getValue() == null;
        said.put("is_null", isNull);
        said.set("value", isRaw ? plain(message.getData()) : plain(isNull ? null : message.getValue()));
        if (message.hasBase64EncodedKey()) {
            said.put("key_bytes", Base64.getEncoder().encodeToString(message.getKeyBytes()));
        } else {
            said.put("key", message.hasKey() ? message.getKey() : null);
        }
        said.put("ordering_key",
                message.hasOrderingKey()
                        ? new String(message.getOrderingKey(), StandardCharsets.UTF_8)
                        : null);
        said.set("properties", JSON.valueToTree(message.getProperties()));
        said.put("event_time_ms", message.getEventTime());
        said.put("redelivery_count", message.getRedeliveryCount());
        return said;
    }

    public static void main(String[] arguments) throws Exception {
        // What a library prints must not be mistaken for an answer.
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader calls =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            Library library = new Library(client);
            for (String line = calls.readLine(); line != null; line = calls.readLine()) {
                ObjectNode answer = JSON.createObjectNode();
                try {
                    answer.set("answer", library.carryOut(JSON.readTree(line)));
                } catch (Exception error) {
                    answer.put("refused", error.toString());
                }
                answers.println(JSON.writeValueAsString(answer));
            }
        }
    }
}
