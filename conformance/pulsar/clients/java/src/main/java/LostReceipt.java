import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Sends one message in a transaction and commits it. Arguments: the broker's URL, the topic and the message. */
public final class LostReceipt {
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).enableTransaction(true).build();
                Producer<byte[]> producer = client.newProducer().topic(arguments[1]).producerName("p")
                        .sendTimeout(0, TimeUnit.SECONDS).enableBatching(false).create()) {
            Transaction transaction =
                    client.newTransaction().withTransactionTimeout(60, TimeUnit.SECONDS).build().get();
            byte[] value = arguments[2].getBytes(StandardCharsets.UTF_8);
            producer.newMessage(transaction).value(value).send();
            transaction.commit().get();
            System.out.println("committed");
        }
        System.exit(0);
    }
}
