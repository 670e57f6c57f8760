import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Consumes, processes and produces for ever, each task in a transaction. Arguments: the broker's URL, the topic of tasks, the
 * topic of results, and the timeout of transactions in seconds.
 */
public class ExactlyOnce {
    public static void main(String[] args) throws Exception {
        PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).enableTransaction(true).ioThreads(1)
                .operationTimeout(10, TimeUnit.SECONDS).build();
        long timeout = Long.parseLong(args[3]);
        Consumer<byte[]> tasks = client.newConsumer().topic(args[1]).subscriptionName("workers")
                .subscriptionType(SubscriptionType.Shared).receiverQueueSize(20)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
        Producer<byte[]> results = client.newProducer().topic(args[2]).sendTimeout(0, TimeUnit.SECONDS).create();
        while (true) {
            Message<byte[]> task = tasks.receive();
            Transaction transaction = null;
            try {
                transaction = client.newTransaction().withTransactionTimeout(timeout, TimeUnit.SECONDS).build().get();
                CompletableFuture<?> sent = results.newMessage(transaction)
                        .value((new String(task.getData(), StandardCharsets.UTF_8) + " " + task.getMessageId())
                                .getBytes(StandardCharsets.UTF_8))
                        .sendAsync();
                tasks.acknowledgeAsync(task.getMessageId(), transaction).get();
                sent.get();
                transaction.commit().get();
            } catch (Exception error) {
                if (!(error.getCause() instanceof PulsarClientException)) {
                    System.err.println(error);
                }
                // It is unknown whether this was committed; if so, the broker does not deliver the task again.
                tasks.negativeAcknowledge(task);
                if (transaction != null) {
                    transaction.abort().exceptionally(refused -> null);
                }
            }
        }
    }
}
