import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.Transaction;
import picocli.CommandLine;

/**
 * Runs many pulsar-admin commands in one virtual machine. The argument is the URL of the admin API. Each line of input is a
 * command, a JSON list of arguments, and is answered by a line of JSON. An empty list asks for the names of all commands.
 */
public class Commands {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Properties settings = new Properties();
        settings.setProperty("webServiceUrl", args[0]);
        PulsarAdminTool tool = new PulsarAdminTool(settings);
        Field field = PulsarAdminTool.class.getDeclaredField("commander");
        field.setAccessible(true);
        CommandLine commander = (CommandLine) field.get(tool);
        Method run = PulsarAdminTool.class.getDeclaredMethod("run", String[].class);
        run.setAccessible(true);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] command = JSON.readValue(line, String[].class);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            if (command.length == 0) {
                list(new PrintStream(said, true, StandardCharsets.UTF_8), "", commander);
            }
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            commander.setOut(new PrintWriter(System.out, true));
            commander.setErr(new PrintWriter(System.err, true));
            Map<String, Object> answer = new TreeMap<>();
            try {
                if (command.length > 0 && command[0].equals("transact")) {
                    transact(command[1], command[2], command[3]);
                    command = new String[0];
                } else if (command.length > 0 && command[0].equals("end-transactions")) {
                    client.close();
                    command = new String[0];
                }
                answer.put("ok", command.length == 0 || (boolean) run.invoke(tool, (Object) command));
            } catch (Throwable error) {
                answer.put("ok", false);
                error.printStackTrace(System.err);
            }
            System.out.flush();
            System.err.flush();
            answer.put("out", said.toString(StandardCharsets.UTF_8));
            answer.put("err", complained.toString(StandardCharsets.UTF_8));
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static PulsarClient client;

    /** Leaves a transaction open that has sent a message and acknowledged one; prints its id. */
    static void transact(String url, String topic, String subscription) throws Exception {
        client = PulsarClient.builder().serviceUrl(url).enableTransaction(true).build();
        Producer<byte[]> producer = client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS).create();
        producer.send("plain".getBytes());
        Transaction transaction = client.newTransaction().withTransactionTimeout(5, TimeUnit.MINUTES).build().get();
        Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName(subscription).subscribe();
        Message<byte[]> message = consumer.receive(20, TimeUnit.SECONDS);
        consumer.acknowledgeAsync(message.getMessageId(), transaction).get();
        producer.newMessage(transaction).value("open".getBytes()).send();
        consumer.close();
        producer.close();
        System.out.println(transaction.getTxnID().getMostSigBits() + " " + transaction.getTxnID().getLeastSigBits());
    }

    /** One name for each command, even if it has several. */
    static void list(PrintStream out, String path, CommandLine commands) {
        for (Map.Entry<String, CommandLine> each : commands.getSubcommands().entrySet()) {
            CommandLine command = each.getValue();
            String name = (path + " " + each.getKey()).trim();
            if (!each.getKey().equals(command.getCommandName()) || each.getKey().equals("help")) {
                continue;
            } else if (command.getSubcommands().isEmpty()) {
                out.println(name);
            } else {
                list(out, name, command);
            }
        }
    }
}
