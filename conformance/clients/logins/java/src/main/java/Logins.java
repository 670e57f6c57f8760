import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultSaslConfig;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.CredentialsProvider;
import com.rabbitmq.client.impl.CredentialsRefreshService;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.concurrent.Callable;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Logs in with the Java client, obeying one command per line; see test_logins.py for the commands. */
public class Logins {
  private static final int PATIENCE_MS = 30_000;
  private static final char[] PASSWORD = "secret".toCharArray();

  private static Connection connection;
  private static final Renewed renewed = new Renewed();

  /** Credentials that are renewed on command, in the way of the client's own refresh service. */
  private static final class Renewed implements CredentialsProvider, CredentialsRefreshService {
    private String user;
    private volatile String password;
    private volatile Callable<Boolean> action;

    public String getUsername() {
      return user;
    }

    public String getPassword() {
      return password;
    }

    public Duration getTimeBeforeExpiration() {
      return Duration.ofHours(1);
    }

    public String register(CredentialsProvider provider, Callable<Boolean> refresh) {
      action = refresh;
      return "one";
    }

    public void unregister(CredentialsProvider provider, String id) {}

    public boolean isApproachingExpiration(Duration left) {
      return false;
    }
  }

  private static ConnectionFactory factory(String host, String port) {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(host);
    factory.setPort(Integer.parseInt(port));
    factory.setAutomaticRecoveryEnabled(false);
    factory.setHandshakeTimeout(PATIENCE_MS);
    factory.setConnectionTimeout(PATIENCE_MS);
    return factory;
  }

  private static String external(String host, String port, String authority, String packed)
      throws Exception {
    KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
    trusted.load(null, null);
    try (InputStream file = new FileInputStream(authority)) {
      CertificateFactory certificates = CertificateFactory.getInstance("X.509");
      trusted.setCertificateEntry("root", certificates.generateCertificate(file));
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    KeyStore own = KeyStore.getInstance("PKCS12");
    if (packed.equals("-")) {
      own.load(null, null);
    } else {
      try (InputStream file = new FileInputStream(packed)) {
        own.load(file, PASSWORD);
      }
    }
    keys.init(own, PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    ConnectionFactory factory = factory(host, port);
    factory.useSslProtocol(context);
    factory.setSaslConfig(DefaultSaslConfig.EXTERNAL);
    connection = factory.newConnection();
    return "in";
  }

  private static String plain(String host, String port, String user, String password)
      throws Exception {
    ConnectionFactory factory = factory(host, port);
    renewed.user = user;
    renewed.password = password;
    factory.setCredentialsProvider(renewed);
    factory.setCredentialsRefreshService(renewed);
    connection = factory.newConnection();
    return "in";
  }

  private static String publish(String user, String queue) throws Exception {
    Channel channel = connection.createChannel();
    channel.queueDeclare(queue, false, false, false, null);
    channel.confirmSelect();
    AMQP.BasicProperties properties = new AMQP.BasicProperties.Builder().userId(user).build();
    channel.basicPublish("", queue, properties, "x".getBytes(StandardCharsets.UTF_8));
    channel.waitForConfirmsOrDie(PATIENCE_MS);
    channel.close();
    return "confirmed";
  }

  private static String renew(String secret) throws Exception {
    renewed.password = secret;
    return renewed.action.call() ? "renewed" : "not renewed";
  }

  private static String carriedOut(String[] words) throws Exception {
    switch (words[0]) {
      case "external":
        return external(words[1], words[2], words[3], words[6]);
      case "plain":
        return plain(words[1], words[2], words[3], words[4]);
      case "publish":
        return publish(words[1], words[2]);
      case "renew":
        return renew(words[1]);
      default:
        if (connection != null && connection.isOpen()) {
          connection.close(PATIENCE_MS);
        }
        return "closed";
    }
  }

  private static String reasonOf(Throwable error) {
    Throwable found = error;
    while (found.getCause() != null && !(found instanceof ShutdownSignalException)) {
      found = found.getCause();
    }
    return found.getClass().getSimpleName() + " " + found.getMessage();
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String said;
      try {
        said = carriedOut(line.split("\t", -1));
      } catch (Exception error) {
        said = reasonOf(error);
      }
      System.out.println(said.replace('\n', ' '));
      System.out.flush();
    }
    System.exit(0); // even if connections are still open
  }
}
