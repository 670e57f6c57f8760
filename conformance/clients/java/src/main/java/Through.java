import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.io.FileInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Publishes through one node and consumes through another. Arguments: a file with the certificate authority,
 * user, password, a number of messages, and then, for each pair of nodes, two URIs and a queue.
 */
public final class Through {
  private static final int PATIENCE_MS = 30_000;

  private static Connection connect(String uri, String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(uri);
    factory.setUsername(arguments[1]);
    factory.setPassword(arguments[2]);
    factory.setHandshakeTimeout(PATIENCE_MS);
    if (uri.startsWith("amqps:")) {
      factory.useSslProtocol(trusting(arguments[0]));
      factory.enableHostnameVerification();
    }
    return factory.newConnection();
  }

  private static SSLContext trusting(String authority) throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (InputStream file = new FileInputStream(authority)) {
      CertificateFactory certificates = CertificateFactory.getInstance("X.509");
      trusted.setCertificateEntry("root", certificates.generateCertificate(file));
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    return context;
  }

  private static void carry(Connection in, Connection out, String queue, int count)
      throws Exception {
    Channel publishing = in.createChannel();
    publishing.queueDeclare(queue, true, false, false, null);
    publishing.confirmSelect();
    Channel consuming = out.createChannel();
    consuming.basicQos(count);
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    String tag =
        consuming.basicConsume(
            queue,
            false,
            (consumer, message) -> {
              heard.add(new String(message.getBody(), StandardCharsets.UTF_8));
              consuming.basicAck(message.getEnvelope().getDeliveryTag(), false);
            },
            consumer -> {});
    for (int number = 0; number < count; number++) {
      byte[] body = (queue + "." + number).getBytes(StandardCharsets.UTF_8);
      publishing.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, body);
    }
    publishing.waitForConfirmsOrDie(PATIENCE_MS);
    for (int number = 0; number < count; number++) {
      String got = heard.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
      if (!(queue + "." + number).equals(got)) {
        throw new IllegalStateException("expected " + queue + "." + number + ", got " + got);
      }
    }
    consuming.basicCancel(tag);
    consuming.close();
    GetResponse left = publishing.basicGet(queue, true);
    if (left != null || !heard.isEmpty()) {
      throw new IllegalStateException("expected no more in " + queue + ", got " + left + heard);
    }
  }

  public static void main(String[] arguments) throws Exception {
    int count = Integer.parseInt(arguments[3]);
    for (int at = 4; at < arguments.length; at += 3) {
      try (Connection in = connect(arguments[at], arguments);
          Connection out = connect(arguments[at + 1], arguments)) {
        carry(in, out, arguments[at + 2], count);
      }
      System.out.println(arguments[at] + " to " + arguments[at + 1] + ": " + arguments[at + 2]);
    }
    System.exit(0);
  }
}
