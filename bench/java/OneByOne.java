import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Sends one message after the other, each when the one before has its receipt. Arguments: the broker's URL, a topic, the size of
 * a message in bytes, the seconds of warming up, and the seconds of measuring. Prints how many messages were measured, and the
 * median and the 99th percentile of their times in ms.
 */
public class OneByOne {
    public static void main(String[] args) throws Exception {
        byte[] body = new byte[Integer.parseInt(args[2])];
        double warmUp = Double.parseDouble(args[3]);
        double seconds = Double.parseDouble(args[4]);
        PulsarClient client = PulsarClient.builder().serviceUrl(args[0]).ioThreads(1).build();
        Producer<byte[]> producer = client.newProducer().topic(args[1]).enableBatching(false).create();
        long begin = System.nanoTime() + (long) (warmUp * 1e9);
        long end = begin + (long) (seconds * 1e9);
        List<Long> took = new ArrayList<>();
        long start;
        while ((start = System.nanoTime()) < end) {
            producer.send(body);
            if (start >= begin) {
                took.add(System.nanoTime() - start);
            }
        }
        Collections.sort(took);
        System.out.println(took.size() + " " + took.get(took.size() / 2) / 1e6 + " " + took.get((int) (took.size() * 0.99)) / 1e6);
        Runtime.getRuntime().halt(0);
    }
}
