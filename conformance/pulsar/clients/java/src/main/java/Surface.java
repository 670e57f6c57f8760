import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;

/** Scenarios for requests that only the Java client makes. */
final class Surface {
    /** The first version of an order. */
    public static final class First {
        public int number;

        public First() {}

        First(int number) {
            this.number = number;
        }
    }

    /** A later version, with an optional field. */
    public static final class Second {
        public int number;
        @org.apache.avro.reflect.AvroDefault("null")
        @org.apache.avro.reflect.Nullable
        public String shop;

        public Second() {}

        Second(int number, String shop) {
            this.number = number;
            this.shop = shop;
        }
    }

    private Surface() {}

    static void addTo(Map<String, Scenarios.Scenario> all) {
        all.put("watched patterns", Surface::watched);
        all.put("access modes", Surface::accessModes);
        all.put("waiting to be exclusive", Surface::waiting);
        all.put("fencing", Surface::fencing);
        all.put("several schemas of one producer", Surface::severalSchemas);
        all.put("schemas found by the client", Surface::foundSchemas);
        all.put("pairs", Surface::pairs);
    }

    /** The client itself checks only every hour, so it is the broker that announces topics. */
    private static void watched(PulsarClient client) throws Exception {
        String prefix = Scenarios.fresh();
        Scenarios.send(client, prefix + "-a", 0, 1);
        Consumer<byte[]> consumer =
                client.newConsumer()
                        .topicsPattern(Pattern.compile("persistent://public/default/" + prefix + "-.*"))
                        .subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .patternAutoDiscoveryPeriod(1, TimeUnit.HOURS)
                        .subscribe();
        Scenarios.expect(Scenarios.take(consumer, 1), Scenarios.range(0, 1), "what was there");
        Scenarios.send(client, prefix + "-b", 1, 2);
        Scenarios.send(client, "other-" + prefix, 5, 6);
        Scenarios.expect(Scenarios.take(consumer, 1), Scenarios.range(1, 2), "what came");
        consumer.close();
    }

    private static Producer<byte[]> open(PulsarClient client, String topic, ProducerAccessMode mode)
            throws PulsarClientException {
        return client.newProducer().topic(topic).accessMode(mode).create();
    }

    private static void accessModes(PulsarClient client) throws Exception {
        String topic = Scenarios.fresh();
        try (Producer<byte[]> owner = open(client, topic, ProducerAccessMode.Exclusive)) {
            owner.send(new byte[1]);
            try {
                open(client, topic, ProducerAccessMode.Shared);
                throw new AssertionError("a shared producer beside an exclusive one");
            } catch (PulsarClientException.ProducerBusyException expected) {
                // As it should be.
            }
            try {
                open(client, topic, ProducerAccessMode.Exclusive);
                throw new AssertionError("two exclusive producers");
            } catch (PulsarClientException.ProducerFencedException expected) {
                // As it should be.
            }
        }
        open(client, topic, ProducerAccessMode.Shared).close();
    }

    private static void waiting(PulsarClient client) throws Exception {
        String topic = Scenarios.fresh();
        Producer<byte[]> owner = open(client, topic, ProducerAccessMode.Exclusive);
        CompletableFuture<Producer<byte[]>> next =
                client.newProducer()
                        .topic(topic)
                        .accessMode(ProducerAccessMode.WaitForExclusive)
                        .createAsync();
        try {
            next.get(Scenarios.SILENCE_MS, TimeUnit.MILLISECONDS);
            throw new AssertionError("it did not wait");
        } catch (TimeoutException expected) {
            // As it should be.
        }
        owner.close();
        try (Producer<byte[]> producer = next.get(Scenarios.PATIENCE_S, TimeUnit.SECONDS)) {
            producer.send(new byte[1]);
        }
    }

    private static void fencing(PulsarClient client) throws Exception {
        String topic = Scenarios.fresh();
        Producer<byte[]> owner = open(client, topic, ProducerAccessMode.Exclusive);
        CompletableFuture<Producer<byte[]>> waiting =
                client.newProducer()
                        .topic(topic)
                        .accessMode(ProducerAccessMode.WaitForExclusive)
                        .createAsync();
        Thread.sleep(Scenarios.SILENCE_MS);
        try (Producer<byte[]> fencing =
                open(client, topic, ProducerAccessMode.ExclusiveWithFencing)) {
            try {
                waiting.get(Scenarios.PATIENCE_S, TimeUnit.SECONDS);
                throw new AssertionError("one that waited was let in");
            } catch (ExecutionException expected) {
                boolean fenced =
                        expected.getCause() instanceof PulsarClientException.ProducerFencedException;
                Scenarios.expect(fenced, true, "fenced out: " + expected.getCause());
            }
            try {
                owner.send(new byte[1]);
                throw new AssertionError("one that was fenced out could send");
            } catch (PulsarClientException expected) {
                // It is fenced out, or has been closed for that reason already.
            }
            fencing.send(new byte[1]);
        }
    }

    private static void severalSchemas(PulsarClient client) throws Exception {
        String topic = Scenarios.fresh();
        Consumer<Second> consumer =
                client.newConsumer(Schema.AVRO(Second.class)).topic(topic).subscriptionName("s").subscribe();
        try (Producer<byte[]> producer = client.newProducer().topic(topic).create()) {
            producer.newMessage(Schema.AVRO(First.class)).value(new First(1)).send();
            producer.newMessage(Schema.AVRO(Second.class)).value(new Second(2, "Oslo")).send();
        }
        List<String> shops = new ArrayList<>();
        for (int n = 1; n <= 2; n++) {
            Message<Second> message = consumer.receive(Scenarios.PATIENCE_S, TimeUnit.SECONDS);
            Scenarios.expect(message.getValue().number, n, "number");
            shops.add(String.valueOf(message.getValue().shop));
        }
        Scenarios.expect(shops, List.of("null", "Oslo"), "shops");
        consumer.close();
    }

    private static void foundSchemas(PulsarClient client) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<GenericRecord> consumer =
                        client.newConsumer(Schema.AUTO_CONSUME())
                                .topic(topic)
                                .subscriptionName("s")
                                .subscribe();
                Producer<First> producer =
                        client.newProducer(Schema.JSON(First.class)).topic(topic).create();
                Producer<byte[]> forwarder =
                        client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(topic).create()) {
            producer.send(new First(7));
            forwarder.send("{\"number\": 8}".getBytes());
            for (int n = 7; n <= 8; n++) {
                Message<GenericRecord> message =
                        consumer.receive(Scenarios.PATIENCE_S, TimeUnit.SECONDS);
                Scenarios.expect(message.getValue().getField("number"), n, "number");
            }
        }
    }

    private static void pairs(PulsarClient client) throws Exception {
        for (KeyValueEncodingType encoding : KeyValueEncodingType.values()) {
            String topic = Scenarios.fresh();
            Schema<KeyValue<String, First>> schema =
                    Schema.KeyValue(Schema.STRING, Schema.AVRO(First.class), encoding);
            try (Consumer<KeyValue<String, First>> consumer =
                            client.newConsumer(schema).topic(topic).subscriptionName("s").subscribe();
                    Producer<KeyValue<String, First>> producer =
                            client.newProducer(schema).topic(topic).create()) {
                producer.send(new KeyValue<>("key", new First(3)));
                KeyValue<String, First> found =
                        consumer.receive(Scenarios.PATIENCE_S, TimeUnit.SECONDS).getValue();
                Scenarios.expect(found.getKey(), "key", "key");
                Scenarios.expect(found.getValue().number, 3, "value");
            }
        }
    }
}
