import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Publishes through one node and consumes through another. Arguments: a file with the certificate authority,
 * the class of an authentication and its parameters, a number of messages, and then, for each pair of nodes,
 * two service URLs and a topic.
 */
public final class Through {
    private static final int PATIENCE_S = 30;

    /** Clients by service URL, shared because a client takes seconds to close. */
    private static final Map<String, PulsarClient> clients = new HashMap<>();

    private static PulsarClient connect(String url, String[] arguments) throws Exception {
        if (clients.containsKey(url)) {
            return clients.get(url);
        }
        ClientBuilder builder =
                PulsarClient.builder().serviceUrl(url).authentication(arguments[1], arguments[2]);
        if (url.startsWith("pulsar+ssl:")) {
            builder.tlsTrustCertsFilePath(arguments[0]).enableTlsHostnameVerification(true);
        }
        clients.put(url, builder.build());
        return clients.get(url);
    }

    private static void carry(PulsarClient in, PulsarClient out, String topic, int count) throws Exception {
        try (Consumer<byte[]> consumer =
                        out.newConsumer().topic(topic).subscriptionName("through").subscribe();
                Producer<byte[]> producer = in.newProducer().topic(topic).create()) {
            for (int number = 0; number < count; number++) {
                producer.sendAsync((topic + "." + number).getBytes(StandardCharsets.UTF_8));
            }
            producer.flush();
            for (int number = 0; number < count; number++) {
                Message<byte[]> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                String got = message == null ? null : new String(message.getData(), StandardCharsets.UTF_8);
                if (!(topic + "." + number).equals(got)) {
                    throw new IllegalStateException("expected " + topic + "." + number + ", got " + got);
                }
                consumer.acknowledge(message);
            }
            Message<byte[]> more = consumer.receive(0, TimeUnit.SECONDS);
            if (more != null) {
                throw new IllegalStateException("expected no more of " + topic + ", got " + more);
            }
            consumer.unsubscribe();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[3]);
        for (int at = 4; at < arguments.length; at += 3) {
            PulsarClient in = connect(arguments[at], arguments);
            PulsarClient out = connect(arguments[at + 1], arguments);
            carry(in, out, arguments[at + 2], count);
            System.out.println(arguments[at] + " to " + arguments[at + 1] + ": " + arguments[at + 2]);
        }
        System.exit(0);
    }
}
