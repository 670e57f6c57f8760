import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.api.transaction.TransactionCoordinatorClientException;
import org.apache.pulsar.client.impl.PulsarClientImpl;

/** What applications do with transactions. Prints one line per scenario: "ok name" or "FAILED name: why". */
public final class Transactions {
    interface Scenario {
        void run(PulsarClient client, String url) throws Exception;
    }

    private static final int PATIENCE_S = 30;
    private static final int SILENCE_MS = 1_000;
    private static final int MINUTE_S = 60;

    private static Transaction begin(PulsarClient client, int timeoutS) throws Exception {
        return client.newTransaction().withTransactionTimeout(timeoutS, TimeUnit.SECONDS).build().get();
    }

    private static ConsumerBuilder<byte[]> consumer(PulsarClient client, String topic, SubscriptionType type) {
        return client.newConsumer().topic(topic).subscriptionName("s").subscriptionType(type)
                .enableBatchIndexAcknowledgment(true).acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    private static Producer<byte[]> producer(PulsarClient client, String topic, boolean batched) throws Exception {
        return client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).enableBatching(batched)
                .batchingMaxMessages(20).batchingMaxPublishDelay(50, TimeUnit.MILLISECONDS).create();
    }

    private static void send(Producer<byte[]> producer, Transaction transaction, int first, int end)
            throws Exception {
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int n = first; n < end; n++) {
            byte[] value = String.valueOf(n).getBytes(StandardCharsets.UTF_8);
            sent.add((transaction == null ? producer.newMessage() : producer.newMessage(transaction)).value(value).sendAsync());
        }
        producer.flush();
        for (CompletableFuture<MessageId> each : sent) {
            each.get();
        }
    }

    private static String text(Message<byte[]> message) {
        return new String(message.getData(), StandardCharsets.UTF_8);
    }

    private static List<Message<byte[]>> receive(Consumer<byte[]> consumer, int count) throws Exception {
        List<Message<byte[]>> got = new ArrayList<>();
        while (got.size() < count) {
            Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
            if (message == null) {
                throw new AssertionError(got.size() + " of " + count + " messages came");
            }
            got.add(message);
        }
        return got;
    }

    private static List<String> texts(List<Message<byte[]>> messages) {
        return messages.stream().map(Transactions::text).toList();
    }

    private static List<String> sorted(List<Message<byte[]>> messages) {
        return texts(messages).stream().map(Integer::valueOf).sorted().map(String::valueOf).toList();
    }

    private static void silent(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(SILENCE_MS, TimeUnit.MILLISECONDS);
        Scenarios.expect(message == null ? null : text(message), null, "something more");
    }

    private static void refused(Callable<CompletableFuture<?>> call, Class<?> by, String what) throws Exception {
        try {
            call.call().get(PATIENCE_S, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (by.isInstance(cause)) {
                    return;
                }
            }
            throw new AssertionError(what + ": expected " + by.getSimpleName() + ", got " + error);
        }
        throw new AssertionError(what + " was not refused");
    }

    private static void committed(PulsarClient client, boolean batched) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(client, topic, batched)) {
            Transaction one = begin(client, MINUTE_S);
            Transaction other = begin(client, MINUTE_S);
            for (int n = 0; n < 100; n += 10) {
                send(producer, n % 20 == 0 ? one : other, n, n + 10);
            }
            silent(consumer);
            one.commit().get();
            other.commit().get();
            Scenarios.expect(sorted(receive(consumer, 100)), Scenarios.range(0, 100), "messages of both");
            silent(consumer);
        }
    }

    private static void aborted(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Producer<byte[]> producer = producer(client, topic, false)) {
            Transaction transaction = begin(client, MINUTE_S);
            send(producer, transaction, 0, 10);
            try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Shared).subscribe()) {
                silent(consumer);
                transaction.abort().get();
                silent(consumer);
                send(producer, null, 10, 12);
                Scenarios.expect(texts(receive(consumer, 2)), Scenarios.range(10, 12), "what came afterwards");
            }
        }
    }

    private static void inOrder(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(client, topic, true)) {
            for (int n = 0; n < 5; n++) {
                Transaction transaction = begin(client, MINUTE_S);
                send(producer, transaction, 0, 200);
                transaction.commit().get();
                Scenarios.expect(texts(receive(consumer, 200)), Scenarios.range(0, 200), "order of transaction " + n);
            }
        }
    }

    /** Messages acknowledged one by one come again after an abort, and do not after a commit. */
    private static void acknowledged(PulsarClient client, SubscriptionType type, boolean batched) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> consumer = consumer(client, topic, type).subscribe();
                Producer<byte[]> producer = producer(client, topic, batched)) {
            for (int round = 0; round < 2; round++) {
                send(producer, null, 0, 100);
                Transaction first = begin(client, MINUTE_S);
                for (Message<byte[]> each : receive(consumer, 100)) {
                    consumer.acknowledgeAsync(each.getMessageId(), first).get();
                }
                silent(consumer);
                first.abort().get();
                Transaction second = begin(client, MINUTE_S);
                List<Message<byte[]>> again = receive(consumer, 100);
                Scenarios.expect(sorted(again), Scenarios.range(0, 100), "messages after the abort");
                for (Message<byte[]> each : again) {
                    consumer.acknowledgeAsync(each.getMessageId(), second).get();
                }
                second.commit().get();
                silent(consumer);
            }
        }
        try (Consumer<byte[]> consumer = consumer(client, topic, type).subscribe()) {
            silent(consumer);
        }
    }

    private static void cumulative(PulsarClient client, boolean batched) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Failover).subscribe();
                Producer<byte[]> producer = producer(client, topic, batched)) {
            send(producer, null, 0, 100);
            List<Message<byte[]>> got = receive(consumer, 100);
            Transaction first = begin(client, MINUTE_S);
            Transaction second = begin(client, MINUTE_S);
            for (int n : List.of(10, 50, 99)) {
                consumer.acknowledgeCumulativeAsync(got.get(n).getMessageId(), first).get();
            }
            MessageId last = got.get(99).getMessageId();
            MessageId before = got.get(50).getMessageId();
            Class<?> conflict = PulsarClientException.TransactionConflictException.class;
            refused(() -> consumer.acknowledgeCumulativeAsync(last, first), conflict, "the same once more");
            refused(() -> consumer.acknowledgeCumulativeAsync(before, first), conflict, "less than before");
            refused(() -> consumer.acknowledgeCumulativeAsync(last, second), conflict, "another transaction");
            first.abort().get();
            consumer.redeliverUnacknowledgedMessages();
            got = receive(consumer, 100);
            Scenarios.expect(texts(got), Scenarios.range(0, 100), "after the abort");
            Transaction third = begin(client, MINUTE_S);
            consumer.acknowledgeCumulativeAsync(got.get(89).getMessageId(), third).get();
            third.commit().get();
        }
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Failover).subscribe()) {
            Scenarios.expect(texts(receive(consumer, 10)), Scenarios.range(90, 100), "what was not acknowledged");
        }
    }

    private static void twoSubscriptions(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> one = consumer(client, topic, SubscriptionType.Shared).subscribe();
                Consumer<byte[]> other = consumer(client, topic, SubscriptionType.Shared).subscriptionName("t").subscribe();
                Producer<byte[]> producer = producer(client, topic, false)) {
            send(producer, null, 0, 1);
            Transaction transaction = begin(client, MINUTE_S);
            for (Consumer<byte[]> each : List.of(one, other)) {
                each.acknowledgeAsync(receive(each, 1).get(0).getMessageId(), transaction).get();
            }
            transaction.commit().get();
            for (Consumer<byte[]> each : List.of(one, other)) {
                each.redeliverUnacknowledgedMessages();
                silent(each);
            }
        }
    }

    private static void ended(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        Class<?> ended = TransactionCoordinatorClientException.InvalidTxnStatusException.class;
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(client, topic, false)) {
            Transaction transaction = begin(client, MINUTE_S);
            send(producer, transaction, 0, 1);
            transaction.commit().get();
            MessageId id = receive(consumer, 1).get(0).getMessageId();
            refused(() -> producer.newMessage(transaction).value(new byte[1]).sendAsync(), ended, "sending");
            refused(() -> consumer.acknowledgeAsync(id, transaction), ended, "acknowledging");
            refused(transaction::commit, ended, "committing");
            refused(transaction::abort, ended, "aborting");
        }
    }

    private static void late(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = producer(client, topic, false)) {
            send(producer, null, 0, 1);
            Transaction transaction = begin(client, 3);
            Message<byte[]> message = receive(consumer, 1).get(0);
            consumer.acknowledgeAsync(message.getMessageId(), transaction).get();
            send(producer, transaction, 1, 2);
            silent(consumer);
            Message<byte[]> again = receive(consumer, 1).get(0);
            Scenarios.expect(again.getMessageId(), message.getMessageId(), "the same message");
            silent(consumer);
            Class<?> ended = TransactionCoordinatorClientException.InvalidTxnStatusException.class;
            refused(transaction::commit, ended, "committing what was aborted when its time was up");
        }
    }

    /** Any client that knows a transaction's id may end it, also from another connection. */
    private static void anotherClient(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        List<Transaction> open = new ArrayList<>();
        try (Producer<byte[]> producer = producer(client, topic, true)) {
            for (int n = 0; n < 5; n++) {
                open.add(begin(client, 5 * MINUTE_S));
                send(producer, open.get(n), 10 * n, 10 * n + 10);
            }
        }
        try (PulsarClient other = PulsarClient.builder().serviceUrl(url).enableTransaction(true).build();
                Consumer<byte[]> consumer = consumer(other, topic, SubscriptionType.Exclusive).subscribe()) {
            for (Transaction each : open) {
                ((PulsarClientImpl) other).getTcClient().commitAsync(each.getTxnID()).get();
            }
            Scenarios.expect(sorted(receive(consumer, 50)), Scenarios.range(0, 50), "messages");
            silent(consumer);
        }
    }

    private static void deadLetters(PulsarClient client, boolean batched) throws Exception {
        String topic = Scenarios.fresh();
        DeadLetterPolicy policy = DeadLetterPolicy.builder().maxRedeliverCount(1).deadLetterTopic(topic + "-dead")
                .initialSubscriptionName("s").build();
        try (Consumer<byte[]> dead = consumer(client, topic + "-dead", SubscriptionType.Shared).subscribe();
                Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Shared).deadLetterPolicy(policy).subscribe();
                Producer<byte[]> producer = producer(client, topic, batched)) {
            send(producer, null, 0, 2);
            for (int round = 0; round < 2; round++) {
                Transaction transaction = begin(client, MINUTE_S);
                for (Message<byte[]> each : receive(consumer, 2)) {
                    consumer.acknowledgeAsync(each.getMessageId(), transaction).get();
                }
                transaction.abort().get();
            }
            Scenarios.expect(sorted(receive(dead, 2)), Scenarios.range(0, 2), "dead letters");
            silent(consumer);
        }
    }

    private static void delayed(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Consumer<byte[]> failover = consumer(client, topic, SubscriptionType.Failover).subscribe();
                Consumer<byte[]> shared = consumer(client, topic, SubscriptionType.Shared).subscriptionName("t").subscribe();
                Producer<byte[]> producer = producer(client, topic, false)) {
            Transaction transaction = begin(client, MINUTE_S);
            long began = System.nanoTime();
            for (int n = 0; n < 5; n++) {
                byte[] value = String.valueOf(n).getBytes(StandardCharsets.UTF_8);
                producer.newMessage(transaction).value(value).deliverAfter(5, TimeUnit.SECONDS).send();
            }
            transaction.commit().get();
            Scenarios.expect(texts(receive(failover, 5)), Scenarios.range(0, 5), "where delays mean nothing");
            Scenarios.expect(sorted(receive(shared, 5)), Scenarios.range(0, 5), "where they do");
            Scenarios.expect(System.nanoTime() - began > TimeUnit.SECONDS.toNanos(4), true, "after the delay");
        }
    }

    private static void chunks(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        byte[] large = new byte[11 << 20];
        Arrays.fill(large, (byte) 7);
        try (Consumer<byte[]> consumer = consumer(client, topic, SubscriptionType.Exclusive).subscribe();
                Producer<byte[]> producer = client.newProducer().topic(topic).enableBatching(false)
                        .enableChunking(true).sendTimeout(0, TimeUnit.SECONDS).create()) {
            for (boolean commit : List.of(false, true)) {
                Transaction transaction = begin(client, MINUTE_S);
                producer.newMessage(transaction).value(large).send();
                silent(consumer);
                (commit ? transaction.commit() : transaction.abort()).get();
            }
            Scenarios.expect(Arrays.equals(receive(consumer, 1).get(0).getData(), large), true, "the message");
            silent(consumer);
        }
    }

    private static void read(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        try (Producer<byte[]> producer = producer(client, topic, false)) {
            send(producer, null, 0, 2);
            Transaction lost = begin(client, MINUTE_S);
            send(producer, lost, 2, 4);
            lost.abort().get();
            Transaction kept = begin(client, MINUTE_S);
            send(producer, kept, 4, 6);
            kept.commit().get();
            try (Reader<byte[]> reader = client.newReader().topic(topic).startMessageId(MessageId.earliest).create()) {
                List<String> got = new ArrayList<>();
                while (reader.hasMessageAvailable()) {
                    Message<byte[]> message = reader.readNext(SILENCE_MS, TimeUnit.MILLISECONDS);
                    if (message == null) {
                        break; // only Apache Pulsar's markers are left
                    }
                    got.add(text(message));
                }
                Scenarios.expect(got, List.of("0", "1", "4", "5"), "read");
            }
        }
    }

    /** Consumes from two topics and produces to the partitions of a third, whose schema is created with the first message. */
    private static void processed(PulsarClient client, String url) throws Exception {
        String topic = Scenarios.fresh();
        List<String> from = List.of(topic + "-a", topic + "-b");
        for (String each : from) {
            try (Producer<byte[]> producer = producer(client, each, true)) {
                send(producer, null, 0, 20);
            }
        }
        try (Consumer<byte[]> consumer = client.newConsumer().topics(from).subscriptionName("s")
                        .subscriptionType(SubscriptionType.Key_Shared)
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                Consumer<String> results = client.newConsumer(Schema.STRING).topic(topic).subscriptionName("s").subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic(topic)
                        .sendTimeout(0, TimeUnit.SECONDS).create()) {
            for (boolean commit : List.of(false, true)) {
                Transaction transaction = begin(client, MINUTE_S);
                for (Message<byte[]> each : receive(consumer, 40)) {
                    producer.newMessage(transaction).key(each.getTopicName()).value(text(each)).sendAsync().get();
                    consumer.acknowledgeAsync(each.getMessageId(), transaction).get();
                }
                (commit ? transaction.commit() : transaction.abort()).get();
            }
            List<String> got = new ArrayList<>();
            for (int n = 0; n < 40; n++) {
                got.add(results.receive(PATIENCE_S, TimeUnit.SECONDS).getValue());
            }
            Collections.sort(got, (one, other) -> Integer.valueOf(one) - Integer.valueOf(other));
            List<String> wanted = new ArrayList<>();
            Scenarios.range(0, 20).forEach(each -> wanted.addAll(List.of(each, each)));
            Scenarios.expect(got, wanted, "results");
            Scenarios.expect(results.receive(SILENCE_MS, TimeUnit.MILLISECONDS), null, "something more");
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> all = new LinkedHashMap<>();
        for (boolean batched : List.of(false, true)) {
            String how = batched ? ", batched" : "";
            all.put("committed" + how, (client, url) -> committed(client, batched));
            for (SubscriptionType type : List.of(SubscriptionType.Shared, SubscriptionType.Failover)) {
                all.put("acknowledged on " + type + how, (client, url) -> acknowledged(client, type, batched));
            }
            all.put("acknowledged cumulatively" + how, (client, url) -> cumulative(client, batched));
            all.put("dead letters" + how, (client, url) -> deadLetters(client, batched));
        }
        all.put("aborted", Transactions::aborted);
        all.put("order", Transactions::inOrder);
        all.put("two subscriptions", Transactions::twoSubscriptions);
        all.put("what has ended", Transactions::ended);
        all.put("its time is up", Transactions::late);
        all.put("ended by another client", Transactions::anotherClient);
        all.put("delayed", Transactions::delayed);
        all.put("chunks", Transactions::chunks);
        all.put("readers", Transactions::read);
        all.put("consumed, processed and produced", Transactions::processed);
        boolean failed = false;
        List<String> wanted = Arrays.asList(arguments).subList(1, arguments.length);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build()) {
            for (Map.Entry<String, Scenario> each : all.entrySet()) {
                if (!wanted.isEmpty() && !wanted.contains(each.getKey())) {
                    continue;
                }
                try {
                    each.getValue().run(client, arguments[0]);
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
