import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatchReceivePolicy;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Messages;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.RegexSubscriptionMode;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;

/** Common and unusual scenarios. Prints one line per scenario: "ok name" or "FAILED name: why". */
public final class Scenarios {
    interface Scenario {
        void run(PulsarClient client) throws Exception;
    }

    /** A value with a schema. */
    public static final class Order {
        public int number;
        public String shop;

        public Order() {}

        Order(int number, String shop) {
            this.number = number;
            this.shop = shop;
        }
    }

    static final int PATIENCE_S = 30;
    static final int SILENCE_MS = 500;
    private static int numbers;

    static String fresh() {
        numbers += 1;
        return "java-" + ProcessHandle.current().pid() + "-" + numbers;
    }

    static void expect(Object got, Object wanted, String what) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": expected " + wanted + ", got " + got);
        }
    }

    private static ConsumerBuilder<byte[]> consumer(
            PulsarClient client, String topic, SubscriptionType type) {
        return client.newConsumer()
                .topic(topic)
                .subscriptionName("s")
                .subscriptionType(type)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    private static Consumer<byte[]> subscribe(
            PulsarClient client, String topic, SubscriptionType type) throws Exception {
        return consumer(client, topic, type).subscribe();
    }

    private static byte[] bytes(Object value) {
        return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Message<byte[]> message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }

    static List<MessageId> send(PulsarClient client, String topic, int first, int end)
            throws Exception {
        return send(client.newProducer().topic(topic), first, end);
    }

    private static List<MessageId> send(ProducerBuilder<byte[]> builder, int first, int end)
            throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        try (Producer<byte[]> producer = builder.create()) {
            for (int n = first; n < end; n++) {
                sent.add(producer.sendAsync(bytes(n)));
            }
            producer.flush();
        }
        List<MessageId> ids = new ArrayList<>();
        for (CompletableFuture<MessageId> each : sent) {
            ids.add(each.get());
        }
        return ids;
    }

    private static Message<byte[]> next(Consumer<byte[]> consumer, String what) throws Exception {
        Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
        if (message == null) {
            throw new AssertionError(what + " did not come");
        }
        return message;
    }

    static List<String> take(Consumer<byte[]> consumer, int count) throws Exception {
        List<String> taken = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            Message<byte[]> message = next(consumer, "message " + n);
            taken.add(text(message));
            consumer.acknowledge(message);
        }
        return taken;
    }

    private static void silent(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(SILENCE_MS, TimeUnit.MILLISECONDS);
        expect(message == null ? null : text(message), null, "something more");
    }

    static List<String> range(int first, int end) {
        List<String> all = new ArrayList<>();
        for (int n = first; n < end; n++) {
            all.add(String.valueOf(n));
        }
        return all;
    }

    private static void exclusive(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        send(client, topic, 0, 500);
        expect(take(consumer, 500), range(0, 500), "order");
        try {
            subscribe(client, topic, SubscriptionType.Exclusive);
            throw new AssertionError("a second consumer of an exclusive subscription");
        } catch (PulsarClientException.ConsumerBusyException expected) {
            consumer.close();
        }
    }

    private static void shared(PulsarClient client) throws Exception {
        String topic = fresh();
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            consumers.add(
                    consumer(client, topic, SubscriptionType.Shared).receiverQueueSize(20).subscribe());
        }
        send(client.newProducer().topic(topic).enableBatching(false), 0, 300);
        Set<String> all = new HashSet<>();
        for (int left = 300; left > 0; ) {
            for (Consumer<byte[]> consumer : consumers) {
                Message<byte[]> message = consumer.receive(50, TimeUnit.MILLISECONDS);
                if (message != null) {
                    expect(all.add(text(message)), true, "once");
                    consumer.acknowledge(message);
                    left -= 1;
                }
            }
        }
        expect(all.size(), 300, "messages");
        for (Consumer<byte[]> consumer : consumers) {
            consumer.close();
        }
    }

    private static void failover(PulsarClient client) throws Exception {
        String topic = fresh();
        // Acknowledged without delay: "b" may become the active consumer as soon as it subscribes, and then
        // gets what is unacknowledged.
        Consumer<byte[]> one =
                consumer(client, topic, SubscriptionType.Failover)
                        .consumerName("a")
                        .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                        .subscribe();
        send(client, topic, 0, 10);
        expect(take(one, 10), range(0, 10), "the first consumer");
        Consumer<byte[]> two =
                consumer(client, topic, SubscriptionType.Failover).consumerName("b").subscribe();
        one.close();
        send(client, topic, 10, 20);
        expect(take(two, 10), range(10, 20), "the second consumer");
        two.close();
    }

    private static void keyShared(PulsarClient client) throws Exception {
        String topic = fresh();
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        consumers.add(subscribe(client, topic, SubscriptionType.Key_Shared));
        consumers.add(subscribe(client, topic, SubscriptionType.Key_Shared));
        Map<String, List<Integer>> seen = new HashMap<>();
        int received = 0;
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int n = 0; n < 400; n++) {
                producer.newMessage().key("k" + n % 13).value(bytes(n)).sendAsync();
                if (n == 130) {
                    producer.flush();
                    consumers.add(subscribe(client, topic, SubscriptionType.Key_Shared));
                }
                if (n == 260) {
                    producer.flush();
                    consumers.remove(0).close();
                }
            }
            producer.flush();
        }
        for (int idle = 0; idle < 500 && received < 400; idle++) {
            for (Consumer<byte[]> consumer : consumers) {
                Message<byte[]> message = consumer.receive(20, TimeUnit.MILLISECONDS);
                while (message != null) {
                    idle = 0;
                    received += 1;
                    seen.computeIfAbsent(message.getKey(), key -> new ArrayList<>())
                            .add(Integer.valueOf(text(message)));
                    consumer.acknowledge(message);
                    message = consumer.receive(20, TimeUnit.MILLISECONDS);
                }
            }
        }
        expect(received, 400, "messages");
        for (Map.Entry<String, List<Integer>> each : seen.entrySet()) {
            List<Integer> sorted = new ArrayList<>(each.getValue());
            sorted.sort(null);
            expect(each.getValue(), sorted, "order of " + each.getKey());
        }
        for (Consumer<byte[]> consumer : consumers) {
            consumer.close();
        }
    }

    private static void stickyRanges(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> low =
                consumer(client, topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(0, 32767)))
                        .subscribe();
        Consumer<byte[]> high =
                consumer(client, topic, SubscriptionType.Key_Shared)
                        .keySharedPolicy(
                                KeySharedPolicy.stickyHashRange().ranges(Range.of(32768, 65535)))
                        .subscribe();
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int n = 0; n < 100; n++) {
                producer.newMessage().key("k" + n).value(bytes(n)).send();
            }
        }
        int received = 0;
        for (Consumer<byte[]> consumer : List.of(low, high)) {
            int mine = 0;
            for (Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                    message != null;
                    message = consumer.receive(SILENCE_MS, TimeUnit.MILLISECONDS)) {
                mine += 1;
                consumer.acknowledge(message);
            }
            expect(mine > 20, true, "a fair part: " + mine);
            received += mine;
        }
        expect(received, 100, "messages");
        low.close();
        high.close();
    }

    private static void batches(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .enableBatchIndexAcknowledgment(true)
                        .isAckReceiptEnabled(true)
                        .subscribe();
        send(
                client.newProducer()
                        .topic(topic)
                        .batchingMaxMessages(50)
                        .batchingMaxPublishDelay(100, TimeUnit.MILLISECONDS),
                0,
                50);
        for (int n = 0; n < 50; n++) {
            Message<byte[]> message = next(consumer, "message " + n);
            if (n % 2 == 0) {
                consumer.acknowledge(message);
            }
        }
        consumer.close();
        consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .enableBatchIndexAcknowledgment(true)
                        .subscribe();
        List<String> odd = new ArrayList<>();
        for (int n = 1; n < 50; n += 2) {
            odd.add(String.valueOf(n));
        }
        expect(take(consumer, 25), odd, "what was not acknowledged");
        silent(consumer);
        consumer.close();
    }

    private static void batchReceive(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .batchReceivePolicy(
                                BatchReceivePolicy.builder()
                                        .maxNumMessages(20)
                                        .timeout(PATIENCE_S, TimeUnit.SECONDS)
                                        .build())
                        .subscribe();
        send(client, topic, 0, 40);
        int received = 0;
        while (received < 40) {
            Messages<byte[]> messages = consumer.batchReceive();
            received += messages.size();
            consumer.acknowledge(messages);
        }
        silent(consumer);
        consumer.close();
    }

    private static void chunks(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        byte[] large = new byte[12 * 1024 * 1024];
        Arrays.fill(large, (byte) 7);
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).enableChunking(true).create()) {
            producer.send(large);
            producer.send(bytes("small"));
        }
        expect(Arrays.equals(next(consumer, "the large one").getData(), large), true, "the bytes");
        expect(text(next(consumer, "the small one")), "small", "the next");
        consumer.close();
    }

    private static void compression(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        for (CompressionType type : CompressionType.values()) {
            send(client.newProducer().topic(topic).compressionType(type), 0, 20);
            expect(take(consumer, 20), range(0, 20), type.name());
        }
        consumer.close();
    }

    private static void properties(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        try (Producer<byte[]> producer = client.newProducer().topic(topic).create()) {
            producer.newMessage()
                    .key("key")
                    .orderingKey(bytes("ordering"))
                    .property("a", "1")
                    .eventTime(1234567)
                    .value(bytes("x"))
                    .send();
        }
        Message<byte[]> message = next(consumer, "the message");
        expect(message.getKey(), "key", "key");
        expect(new String(message.getOrderingKey()), "ordering", "ordering key");
        expect(message.getProperty("a"), "1", "property");
        expect(message.getEventTime(), 1234567L, "event time");
        expect(message.getRedeliveryCount(), 0, "redelivery count");
        consumer.close();
    }

    private static void cumulative(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        send(client.newProducer().topic(topic).enableBatching(false), 0, 10);
        for (int n = 0; n < 6; n++) {
            Message<byte[]> message = next(consumer, "message " + n);
            if (n == 5) {
                consumer.acknowledgeCumulativeAsync(message).get();
            }
        }
        consumer.close();
        consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        expect(take(consumer, 4), range(6, 10), "the rest");
        consumer.close();
    }

    private static void seeking(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        List<MessageId> ids = send(client.newProducer().topic(topic).enableBatching(false), 0, 10);
        take(consumer, 10);
        consumer.seek(ids.get(3));
        expect(take(consumer, 6), range(4, 10), "behind the fourth");
        consumer.seek(MessageId.earliest);
        expect(take(consumer, 10), range(0, 10), "from the start");
        consumer.seek(System.currentTimeMillis() - 3_600_000);
        expect(take(consumer, 10), range(0, 10), "from an hour ago");
        consumer.close();
    }

    private static void reading(PulsarClient client) throws Exception {
        String topic = fresh();
        List<MessageId> ids = send(client, topic, 0, 10);
        try (Reader<byte[]> reader =
                client.newReader().topic(topic).startMessageId(ids.get(6)).create()) {
            List<String> read = new ArrayList<>();
            while (reader.hasMessageAvailable()) {
                read.add(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)));
            }
            expect(read, range(7, 10), "behind the seventh");
        }
        try (Reader<byte[]> reader =
                client.newReader()
                        .topic(topic)
                        .startMessageId(ids.get(6))
                        .startMessageIdInclusive()
                        .create()) {
            expect(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)), "6", "inclusive");
            reader.seek(MessageId.earliest);
            expect(text(reader.readNext(PATIENCE_S, TimeUnit.SECONDS)), "0", "after a seek");
        }
    }

    private static void patterns(PulsarClient client) throws Exception {
        String prefix = fresh();
        send(client, prefix + "-a", 0, 1);
        Consumer<byte[]> consumer =
                client.newConsumer()
                        .topicsPattern(Pattern.compile("persistent://public/default/" + prefix + "-.*"))
                        .subscriptionTopicsMode(RegexSubscriptionMode.PersistentOnly)
                        .subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS)
                        .subscribe();
        expect(take(consumer, 1), range(0, 1), "the topic that was there");
        send(client, prefix + "-b", 1, 2);
        expect(take(consumer, 1), range(1, 2), "the topic that came");
        consumer.close();
    }

    private static void severalTopics(PulsarClient client) throws Exception {
        List<String> topics = List.of(fresh(), fresh(), fresh());
        Consumer<byte[]> consumer =
                client.newConsumer().topics(topics).subscriptionName("s").subscribe();
        for (int n = 0; n < 3; n++) {
            send(client, topics.get(n), n, n + 1);
        }
        expect(new HashSet<>(take(consumer, 3)), new HashSet<>(range(0, 3)), "all of them");
        consumer.close();
    }

    private static void negative(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                        .subscribe();
        send(client, topic, 0, 1);
        for (int count = 0; count < 3; count++) {
            Message<byte[]> message = next(consumer, "the message");
            expect(message.getRedeliveryCount(), count, "redelivery count");
            consumer.negativeAcknowledge(message);
        }
        take(consumer, 1);
        silent(consumer);
        consumer.close();
    }

    private static void ackTimeout(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .ackTimeout(1, TimeUnit.SECONDS)
                        .subscribe();
        send(client, topic, 0, 1);
        next(consumer, "the message");
        expect(take(consumer, 1), range(0, 1), "the message again");
        consumer.close();
    }

    private static void deadLetters(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
                        .deadLetterPolicy(
                                DeadLetterPolicy.builder()
                                        .maxRedeliverCount(2)
                                        .deadLetterTopic(topic + "-dead")
                                        .initialSubscriptionName("s")
                                        .build())
                        .subscribe();
        send(client, topic, 0, 2);
        for (int n = 0; n < 6; n++) {
            consumer.negativeAcknowledge(next(consumer, "delivery " + n));
        }
        Consumer<byte[]> dead = subscribe(client, topic + "-dead", SubscriptionType.Shared);
        expect(new HashSet<>(take(dead, 2)), new HashSet<>(range(0, 2)), "dead letters");
        silent(consumer);
        consumer.close();
        dead.close();
    }

    private static void retries(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Shared)
                        .enableRetry(true)
                        .deadLetterPolicy(
                                DeadLetterPolicy.builder()
                                        .maxRedeliverCount(2)
                                        .retryLetterTopic(topic + "-again")
                                        .deadLetterTopic(topic + "-dead")
                                        .initialSubscriptionName("s")
                                        .build())
                        .subscribe();
        send(client, topic, 0, 1);
        for (int n = 0; n < 3; n++) {
            consumer.reconsumeLater(next(consumer, "attempt " + n), 200, TimeUnit.MILLISECONDS);
        }
        Consumer<byte[]> dead = subscribe(client, topic + "-dead", SubscriptionType.Shared);
        expect(take(dead, 1), range(0, 1), "the dead letter");
        consumer.close();
        dead.close();
    }

    private static void delayed(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Shared);
        long began = System.currentTimeMillis();
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            producer.newMessage().deliverAfter(6, TimeUnit.SECONDS).value(bytes("late")).send();
            producer.newMessage().deliverAfter(3, TimeUnit.SECONDS).value(bytes("soon")).send();
            producer.send(bytes("now"));
        }
        expect(take(consumer, 1), List.of("now"), "first");
        expect(take(consumer, 1), List.of("soon"), "second");
        expect(System.currentTimeMillis() - began >= 3000, true, "not early");
        expect(take(consumer, 1), List.of("late"), "third");
        long took = System.currentTimeMillis() - began;
        expect(took >= 6000 && took < PATIENCE_S * 1000, true, "on time: " + took);
        consumer.close();
    }

    private static void schemas(PulsarClient client) throws Exception {
        for (Schema<Order> schema : List.of(Schema.JSON(Order.class), Schema.AVRO(Order.class))) {
            String topic = fresh();
            try (Consumer<Order> consumer =
                            client.newConsumer(schema).topic(topic).subscriptionName("s").subscribe();
                    Producer<Order> producer = client.newProducer(schema).topic(topic).create()) {
                producer.send(new Order(7, "Oslo"));
                Message<Order> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                expect(message.getValue().number, 7, "number");
                expect(message.getValue().shop, "Oslo", "shop");
            }
            try {
                client.newProducer(Schema.INT64).topic(topic).create();
                throw new AssertionError("a producer of another schema");
            } catch (PulsarClientException.IncompatibleSchemaException expected) {
                // As it should be.
            }
        }
    }

    private static void tables(PulsarClient client) throws Exception {
        String topic = fresh();
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).create();
                TableView<String> view =
                        client.newTableView(Schema.STRING).topic(topic).create()) {
            producer.newMessage().key("a").value("1").send();
            producer.newMessage().key("b").value("2").send();
            producer.newMessage().key("a").value("3").send();
            for (int n = 0; n < 100 && !"3".equals(view.get("a")); n++) {
                Thread.sleep(50);
            }
            expect(view.get("a"), "3", "the last value of a");
            expect(view.get("b"), "2", "the value of b");
        }
    }

    private static void names(PulsarClient client) throws Exception {
        String topic = fresh();
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).producerName("me").create()) {
            expect(producer.getProducerName(), "me", "name");
            try {
                client.newProducer().topic(topic).producerName("me").create();
                throw new AssertionError("two producers of one name");
            } catch (PulsarClientException.ProducerBusyException expected) {
                // As it should be.
            }
        }
    }

    private static void lastId(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer = subscribe(client, topic, SubscriptionType.Exclusive);
        List<MessageId> ids = send(client.newProducer().topic(topic).enableBatching(false), 0, 3);
        expect(consumer.getLastMessageIds().get(0).compareTo(ids.get(2)), 0, "last id");
        consumer.unsubscribe();
    }

    private static void pauses(PulsarClient client) throws Exception {
        String topic = fresh();
        Consumer<byte[]> consumer =
                consumer(client, topic, SubscriptionType.Exclusive).receiverQueueSize(5).subscribe();
        send(client.newProducer().topic(topic).enableBatching(false), 0, 5);
        take(consumer, 5);
        consumer.pause();
        send(client.newProducer().topic(topic).enableBatching(false), 5, 50);
        Thread.sleep(SILENCE_MS);
        consumer.resume();
        expect(take(consumer, 45), range(5, 50), "after the pause");
        consumer.close();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> all = new java.util.LinkedHashMap<>();
        all.put("exclusive", Scenarios::exclusive);
        all.put("shared", Scenarios::shared);
        all.put("failover", Scenarios::failover);
        all.put("key shared under joins and leaves", Scenarios::keyShared);
        all.put("sticky ranges", Scenarios::stickyRanges);
        all.put("batches acknowledged in part", Scenarios::batches);
        all.put("receiving in batches", Scenarios::batchReceive);
        all.put("chunks", Scenarios::chunks);
        all.put("compression", Scenarios::compression);
        all.put("properties", Scenarios::properties);
        all.put("cumulative acknowledgement", Scenarios::cumulative);
        all.put("seeking", Scenarios::seeking);
        all.put("reading", Scenarios::reading);
        all.put("patterns", Scenarios::patterns);
        all.put("several topics", Scenarios::severalTopics);
        all.put("negative acknowledgement", Scenarios::negative);
        all.put("acknowledgement timeout", Scenarios::ackTimeout);
        all.put("dead letters", Scenarios::deadLetters);
        all.put("retry letters", Scenarios::retries);
        all.put("delayed delivery", Scenarios::delayed);
        all.put("schemas", Scenarios::schemas);
        all.put("table view", Scenarios::tables);
        all.put("producer names", Scenarios::names);
        all.put("last message id", Scenarios::lastId);
        all.put("pausing", Scenarios::pauses);
        Surface.addTo(all);
        List<String> wanted = Arrays.asList(arguments).subList(1, arguments.length);
        boolean failed = false;
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            for (Map.Entry<String, Scenario> each : all.entrySet()) {
                if (!wanted.isEmpty() && !wanted.contains(each.getKey())) {
                    continue;
                }
                try {
                    each.getValue().run(client);
                    System.out.println("ok " + each.getKey());
                } catch (Exception | AssertionError error) {
                    failed = true;
                    System.out.println("FAILED " + each.getKey() + ": " + error);
                }
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
