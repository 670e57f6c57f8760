import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.Return;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.LongStringHelper;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Common and unusual scenarios. Prints one line per scenario: "ok name" or "FAILED name: why". */
public final class Scenarios {
    private interface Scenario {
        void run(Connection connection) throws Exception;
    }

    private static final long PATIENCE_S = 30;
    private static String url;
    private static int numbers;

    private static String fresh() {
        numbers += 1;
        return "java-" + ProcessHandle.current().pid() + "-" + numbers;
    }

    private static void expect(Object got, Object wanted, String what) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": expected " + wanted + ", got " + got);
        }
    }

    private static <T> T next(BlockingQueue<T> queue, String what) throws InterruptedException {
        T value = queue.poll(PATIENCE_S, TimeUnit.SECONDS);
        if (value == null) {
            throw new AssertionError(what + " did not come");
        }
        return value;
    }

    private static void await(CountDownLatch latch, String what) throws InterruptedException {
        expect(latch.await(PATIENCE_S, TimeUnit.SECONDS), true, what);
    }

    private static String queue(Channel channel) throws IOException {
        return channel.queueDeclare(fresh(), true, false, false, null).getQueue();
    }

    private static void publish(Channel channel, String queue, String body) throws IOException {
        channel.basicPublish("", queue, null, body.getBytes());
    }

    private static BlockingQueue<Delivery> consume(Channel channel, String queue)
            throws IOException {
        BlockingQueue<Delivery> came = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, false, (tag, delivery) -> came.add(delivery), tag -> {});
        return came;
    }

    private static void confirmed(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        String queue = queue(channel);
        for (int n = 0; n < 200; n++) {
            publish(channel, queue, String.valueOf(n));
        }
        channel.waitForConfirmsOrDie(PATIENCE_S * 1000);
        BlockingQueue<Delivery> came = consume(channel, queue);
        for (int n = 0; n < 200; n++) {
            Delivery delivery = next(came, "a message");
            expect(new String(delivery.getBody()), String.valueOf(n), "order");
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }
        channel.queueDelete(queue);
    }

    private static void requeued(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        publish(channel, queue, "again");
        BlockingQueue<Delivery> came = consume(channel, queue);
        Delivery first = next(came, "the message");
        expect(first.getEnvelope().isRedeliver(), false, "redelivered at first");
        channel.basicNack(first.getEnvelope().getDeliveryTag(), false, true);
        Delivery second = next(came, "the message again");
        expect(second.getEnvelope().isRedeliver(), true, "redelivered");
        channel.basicAck(second.getEnvelope().getDeliveryTag(), false);
        channel.queueDelete(queue);
    }

    private static void prefetch(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        for (int n = 0; n < 5; n++) {
            publish(channel, queue, String.valueOf(n));
        }
        channel.basicQos(2);
        BlockingQueue<Delivery> came = consume(channel, queue);
        next(came, "the first");
        long tag = next(came, "the second").getEnvelope().getDeliveryTag();
        expect(channel.messageCount(queue), 3L, "ready");
        channel.basicAck(tag, true);
        next(came, "the third");
        channel.queueDelete(queue);
    }

    private static void returned(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        BlockingQueue<Return> returns = new LinkedBlockingQueue<>();
        channel.addReturnListener(returns::add);
        channel.confirmSelect();
        channel.basicPublish("", fresh(), true, null, "back".getBytes());
        Return back = next(returns, "the return");
        expect(back.getReplyCode(), AMQP.NO_ROUTE, "code");
        expect(back.getReplyText(), "NO_ROUTE", "text");
        channel.waitForConfirmsOrDie(PATIENCE_S * 1000);
    }

    private static void allTypes(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        Map<String, Object> headers = new LinkedHashMap<>();
        headers.put("text", LongStringHelper.asLongString("gr\u00fcn"));
        headers.put("int", 1);
        headers.put("long", 1L << 40);
        headers.put("short", (short) -300);
        headers.put("byte", (byte) -1);
        headers.put("double", 2.5);
        headers.put("float", 1.5f);
        headers.put("bool", true);
        headers.put("decimal", new BigDecimal("123.45"));
        headers.put("time", new Date(1700000000000L));
        headers.put("list", List.of(1, LongStringHelper.asLongString("two")));
        headers.put("table", Map.of("deep", LongStringHelper.asLongString("x")));
        headers.put("nothing", null);
        AMQP.BasicProperties properties = new AMQP.BasicProperties("text/plain", "utf-8", headers, 2,
                4, "c", "r", "60000", "m", new Date(1700000000000L), "t", "guest", "a", null);
        channel.basicPublish("", queue, properties, new byte[0]);
        GetResponse got = channel.basicGet(queue, true);
        expect(got.getProps(), properties, "properties");
        expect(got.getBody().length, 0, "size");
        channel.queueDelete(queue);
    }

    private static void large(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        byte[] body = new byte[1_000_003];
        Arrays.fill(body, (byte) 'x');
        channel.basicPublish("", queue, null, body);
        expect(Arrays.equals(channel.basicGet(queue, true).getBody(), body), true, "body");
        channel.queueDelete(queue);
    }

    private static void transaction(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        channel.txSelect();
        publish(channel, queue, "taken back");
        channel.txRollback();
        publish(channel, queue, "kept");
        channel.txCommit();
        GetResponse got = channel.basicGet(queue, false);
        expect(new String(got.getBody()), "kept", "body");
        channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
        channel.txRollback();
        channel.basicRecover(true);
        channel.txCommit();
        channel.queueDelete(queue);
    }

    private static String queue(Channel channel, Map<String, Object> arguments)
            throws IOException {
        return channel.queueDeclare(fresh(), true, false, false, arguments).getQueue();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> death(Delivery delivery) {
        Object deaths = delivery.getProperties().getHeaders().get("x-death");
        return ((List<Map<String, Object>>) deaths).get(0);
    }

    private static void expired(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String dead = queue(channel);
        String queue = queue(channel, Map.of("x-message-ttl", 50, "x-dead-letter-exchange", "",
                "x-dead-letter-routing-key", dead, "x-max-length", 1000L, "x-expires", 600_000));
        publish(channel, queue, "late");
        Map<String, Object> death = death(next(consume(channel, dead), "the dead letter"));
        expect(death.get("queue").toString(), queue, "queue");
        expect(death.get("reason").toString(), "expired", "reason");
        expect(death.get("count"), 1L, "count");
        expect(death.get("exchange").toString(), "", "exchange");
        expect(death.get("routing-keys").toString(), "[" + queue + "]", "routing keys");
        expect(death.get("time") instanceof Date, true, "time");
        channel.queueDelete(queue);
        channel.queueDelete(dead);
    }

    private static void poison(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String dead = queue(channel);
        String queue = queue(channel, Map.of("x-queue-type", "quorum", "x-delivery-limit", 2,
                "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead));
        publish(channel, queue, "poison");
        BlockingQueue<Delivery> came = consume(channel, queue);
        for (long n = 0; n < 3; n++) {
            Delivery delivery = next(came, "the message");
            Map<String, Object> headers = delivery.getProperties().getHeaders();
            Object count = headers == null ? null : headers.get("x-delivery-count");
            expect(count == null ? 0L : count, n, "count");
            channel.basicNack(delivery.getEnvelope().getDeliveryTag(), false, true);
        }
        Delivery letter = next(consume(channel, dead), "the dead letter");
        expect(death(letter).get("reason").toString(), "delivery_limit", "reason");
        channel.queueDelete(queue);
        channel.queueDelete(dead);
    }

    private static void stream(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        channel.confirmSelect();
        String queue = queue(channel, Map.of("x-queue-type", "stream", "x-max-age", "1h"));
        for (int n = 0; n < 10; n++) {
            publish(channel, queue, String.valueOf(n));
        }
        channel.waitForConfirmsOrDie(PATIENCE_S * 1000);
        for (Object offset : List.of("first", 4)) {
            Channel reading = connection.createChannel();
            reading.basicQos(100);
            BlockingQueue<Delivery> came = new LinkedBlockingQueue<>();
            reading.basicConsume(queue, false, Map.of("x-stream-offset", offset),
                    (tag, delivery) -> came.add(delivery), tag -> {});
            for (long n = offset.equals(4) ? 4 : 0; n < 10; n++) {
                Delivery delivery = next(came, "a message");
                expect(new String(delivery.getBody()), String.valueOf(n), "order");
                Map<String, Object> headers = delivery.getProperties().getHeaders();
                expect(headers.get("x-stream-offset"), n, "offset");
                reading.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            }
            reading.close();
        }
        channel.queueDelete(queue);
    }

    private static void mistake(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        try {
            channel.queueDeclarePassive(fresh());
            throw new AssertionError("a queue that is not there was found");
        } catch (IOException refused) {
            ShutdownSignalException why = (ShutdownSignalException) refused.getCause();
            expect(((AMQP.Channel.Close) why.getReason()).getReplyCode(), AMQP.NOT_FOUND, "code");
        }
        try {
            channel.basicQos(1);
            throw new AssertionError("a closed channel was used");
        } catch (AlreadyClosedException closed) {
            connection.createChannel().close();
        }
    }

    private static void cancelled(Connection connection) throws Exception {
        Channel channel = connection.createChannel();
        String queue = queue(channel);
        BlockingQueue<String> cancels = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, false, "mine", (tag, delivery) -> {}, cancels::add);
        channel.queueDelete(queue);
        expect(next(cancels, "the cancel"), "mine", "consumer tag");
    }

    /** The library reconnects by itself, and restores its declarations and consumers. */
    private static void recovered(Connection unused) throws Exception {
        List<Socket> sockets = new ArrayList<>();
        ConnectionFactory factory = factory();
        factory.setNetworkRecoveryInterval(100);
        factory.setSocketConfigurator(sockets::add);
        Connection connection = factory.newConnection();
        CountDownLatch back = new CountDownLatch(1);
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            @Override
            public void handleRecovery(Recoverable recoverable) {
                back.countDown();
            }

            @Override
            public void handleRecoveryStarted(Recoverable recoverable) {}
        });
        Channel channel = connection.createChannel();
        String queue = channel.queueDeclare().getQueue();
        BlockingQueue<Delivery> came = consume(channel, queue);
        String kept = queue(channel);
        publish(channel, kept, "kept");
        BlockingQueue<Delivery> held = consume(channel, kept);
        next(held, "the message");
        sockets.get(0).close();
        await(back, "recovery");
        expect(next(held, "the message again").getEnvelope().isRedeliver(), true, "redelivered");
        channel.exchangeDeclare(kept, "fanout", false, true, null);
        channel.queueDelete(kept);
        channel.exchangeDelete(kept);
        expect(came.isEmpty(), true, "nothing for the exclusive queue");
        connection.close();
    }

    private static void heartbeats(Connection unused) throws Exception {
        ConnectionFactory factory = factory();
        factory.setRequestedHeartbeat(2);
        factory.setAutomaticRecoveryEnabled(false);
        Connection idle = factory.newConnection();
        Thread.sleep(7000);
        idle.createChannel().close();
        idle.close();
    }

    private static ConnectionFactory factory() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        return factory;
    }

    public static void main(String[] arguments) throws Exception {
        // The path is removed, because for this library it would mean a virtual host with an empty name.
        url = arguments[0].replaceAll("/$", "");
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        scenarios.put("confirmed publishes come back in order", Scenarios::confirmed);
        scenarios.put("a rejected message comes again, redelivered", Scenarios::requeued);
        scenarios.put("a prefetch holds back what is too much", Scenarios::prefetch);
        scenarios.put("an unroutable mandatory message is returned", Scenarios::returned);
        scenarios.put("headers of all types and every property come back", Scenarios::allTypes);
        scenarios.put("a body of many frames comes back whole", Scenarios::large);
        scenarios.put("a transaction is kept or taken back", Scenarios::transaction);
        scenarios.put("what expires is dead-lettered and says why", Scenarios::expired);
        scenarios.put("a quorum queue gives a message up after its limit", Scenarios::poison);
        scenarios.put("a stream is read again from where one says", Scenarios::stream);
        scenarios.put("a mistake closes its channel only", Scenarios::mistake);
        scenarios.put("a deleted queue cancels its consumer", Scenarios::cancelled);
        scenarios.put("a lost connection is recovered with its consumers", Scenarios::recovered);
        scenarios.put("heartbeats keep an idle connection", Scenarios::heartbeats);
        boolean failed = false;
        for (Map.Entry<String, Scenario> each : scenarios.entrySet()) {
            try (Connection connection = factory().newConnection()) {
                each.getValue().run(connection);
                System.out.println("ok " + each.getKey());
            } catch (Exception | AssertionError problem) {
                failed = true;
                System.out.println("FAILED " + each.getKey() + ": " + problem);
                problem.printStackTrace(System.out);
            }
        }
        System.exit(failed ? 1 : 0);
    }
}
