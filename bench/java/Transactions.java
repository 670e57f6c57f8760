import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Transactions with the official client. Arguments: the broker's URL, workers, messages per transaction, the seconds of warming
 * up and of measuring, and whether the client batches. Prints how many transactions there were, how many were measured, and the
 * median and the 99th percentile of their durations in ms.
 */
public class Transactions {
    static final byte[] BODY = new byte[1024];

    public static void main(String[] args) throws Exception {
        String url = args[0];
        int workers = Integer.parseInt(args[1]);
        int messages = Integer.parseInt(args[2]);
        double warmUp = Double.parseDouble(args[3]);
        double seconds = Double.parseDouble(args[4]);
        boolean batches = Boolean.parseBoolean(args[5]);
        PulsarClient client = PulsarClient.builder().serviceUrl(url).enableTransaction(true).ioThreads(1).build();
        List<Producer<byte[]>> producers = new ArrayList<>();
        for (int worker = 0; worker < workers; worker++) {
            producers.add(client.newProducer().topic("persistent://public/default/transactions-" + worker)
                    .sendTimeout(0, TimeUnit.SECONDS).enableBatching(batches)
                    .batchingMaxPublishDelay(1, TimeUnit.MILLISECONDS).create());
        }
        long began = System.nanoTime();
        long begin = began + (long) (warmUp * 1e9);
        long end = begin + (long) (seconds * 1e9);
        List<List<Long>> took = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (Producer<byte[]> producer : producers) {
            List<Long> own = new ArrayList<>();
            took.add(own);
            Thread thread = new Thread(() -> work(client, producer, messages, begin, end, own));
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        long[] all = took.stream().flatMap(List::stream).mapToLong(Long::longValue).sorted().toArray();
        if (all.length == 0 || failed != null) {
            new IllegalStateException("no transaction came to its end", failed).printStackTrace();
            Runtime.getRuntime().halt(1);
        }
        System.out.println(committed.get() + " " + all.length + " " + all[all.length / 2] / 1e6 + " " + all[(int) (all.length * 0.99)] / 1e6);
        Runtime.getRuntime().halt(0);
    }

    static volatile Exception failed;
    static final AtomicLong committed = new AtomicLong();

    static void work(PulsarClient client, Producer<byte[]> producer, int messages, long begin, long end, List<Long> took) {
        try {
            long start;
            while ((start = System.nanoTime()) < end && failed == null) {
                Transaction transaction = client.newTransaction().withTransactionTimeout(60, TimeUnit.SECONDS).build().get();
                CompletableFuture<?>[] sent = new CompletableFuture<?>[messages];
                for (int number = 0; number < messages; number++) {
                    sent[number] = producer.newMessage(transaction).value(BODY).sendAsync();
                }
                CompletableFuture.allOf(sent).get();
                transaction.commit().get();
                committed.incrementAndGet();
                long now = System.nanoTime();
                if (start >= begin && now <= end) {
                    took.add(now - start);
                }
            }
        } catch (Exception error) {
            failed = error;
        }
    }
}
