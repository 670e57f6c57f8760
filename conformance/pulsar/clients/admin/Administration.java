import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.pulsar.client.admin.LongRunningProcessStatus;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.common.policies.data.AutoTopicCreationOverride;
import org.apache.pulsar.common.policies.data.BacklogQuota;
import org.apache.pulsar.common.policies.data.InactiveTopicDeleteMode;
import org.apache.pulsar.common.policies.data.InactiveTopicPolicies;
import org.apache.pulsar.common.policies.data.RetentionPolicies;
import org.apache.pulsar.common.policies.data.SchemaCompatibilityStrategy;
import org.apache.pulsar.common.policies.data.TenantInfo;

/** The everyday work of an operator, with Pulsar's own admin client: ADMIN-URL PULSAR-URL. */
public class Administration {
    interface Call {
        Object run() throws Exception;
    }

    static int failures = 0;

    /** The call returns that value, compared as text. A value that was set may take a moment to show. */
    static void check(String name, Object expected, Call call) throws InterruptedException {
        Object got = null;
        for (int attempt = 0; attempt < 50; attempt++) {
            try {
                got = call.run();
            } catch (Exception error) {
                got = error.getClass().getSimpleName();
            }
            if (Objects.equals(String.valueOf(expected), String.valueOf(got))) {
                System.out.println("ok " + name);
                return;
            }
            Thread.sleep(100);
        }
        failures++;
        System.out.println("FAILED " + name + ": expected " + expected + ", got " + got);
    }

    static void refused(String name, int status, Call call) {
        try {
            call.run();
            failures++;
            System.out.println("FAILED " + name + ": expected " + status + ", was done");
        } catch (PulsarAdminException error) {
            boolean right = error.getStatusCode() == status;
            failures += right ? 0 : 1;
            System.out.println((right ? "ok " : "FAILED ") + name + " " + error.getStatusCode());
        } catch (Exception error) {
            failures++;
            System.out.println("FAILED " + name + ": " + error);
        }
    }

    public static void main(String[] urls) throws Exception {
        try (PulsarAdmin admin = PulsarAdmin.builder().serviceHttpUrl(urls[0]).build();
                PulsarClient client = PulsarClient.builder().serviceUrl(urls[1]).build()) {
            String tenant = "tenant-" + System.nanoTime();
            String namespace = tenant + "/shop";
            places(admin, tenant, namespace);
            policies(admin, namespace);
            topics(admin, client, namespace);
            admin.namespaces().deleteNamespace(namespace);
            admin.tenants().deleteTenant(tenant);
            check("tenant gone", false, () -> admin.tenants().getTenants().contains(tenant));
        }
        System.exit(failures == 0 ? 0 : 1);
    }

    static void places(PulsarAdmin admin, String tenant, String namespace) throws Exception {
        check("clusters", List.of("standalone"), () -> admin.clusters().getClusters());
        refused("no namespace without its tenant", 404, () -> {
            admin.namespaces().createNamespace(namespace);
            return null;
        });
        TenantInfo info =
                TenantInfo.builder().adminRoles(Set.of("r")).allowedClusters(Set.of("standalone")).build();
        admin.tenants().createTenant(tenant, info);
        check("tenant", info, () -> admin.tenants().getTenantInfo(tenant));
        admin.namespaces().createNamespace(namespace);
        refused("namespace again", 409, () -> {
            admin.namespaces().createNamespace(namespace);
            return null;
        });
        check("namespaces", List.of(namespace), () -> admin.namespaces().getNamespaces(tenant));
        check("policies are read", true, () -> admin.namespaces().getPolicies(namespace) != null);
        check("brokers", 1, () -> admin.brokers().getActiveBrokers("standalone").size());
        admin.brokers().healthcheck();
    }

    static void policies(PulsarAdmin admin, String namespace) throws Exception {
        RetentionPolicies retention = new RetentionPolicies(10, 20);
        admin.namespaces().setRetention(namespace, retention);
        check("retention", retention, () -> admin.namespaces().getRetention(namespace));
        admin.namespaces().removeRetention(namespace);
        check("no retention", null, () -> admin.namespaces().getRetention(namespace));
        admin.namespaces().setNamespaceMessageTTL(namespace, 60);
        check("ttl", 60, () -> admin.namespaces().getNamespaceMessageTTL(namespace));
        BacklogQuota quota = BacklogQuota.builder().limitSize(1_000_000).limitTime(-1)
                .retentionPolicy(BacklogQuota.RetentionPolicy.producer_exception).build();
        admin.namespaces().setBacklogQuota(namespace, quota);
        check("quota", Map.of(BacklogQuota.BacklogQuotaType.destination_storage, quota),
                () -> admin.namespaces().getBacklogQuotaMap(namespace));
        admin.namespaces().removeBacklogQuota(namespace);
        check("no quota", Map.of(), () -> admin.namespaces().getBacklogQuotaMap(namespace));
        SchemaCompatibilityStrategy forward = SchemaCompatibilityStrategy.FORWARD;
        admin.namespaces().setSchemaCompatibilityStrategy(namespace, forward);
        check("strategy", forward,
                () -> admin.namespaces().getSchemaCompatibilityStrategy(namespace));
        InactiveTopicPolicies inactive = new InactiveTopicPolicies(
                InactiveTopicDeleteMode.delete_when_no_subscriptions, 100, true);
        admin.namespaces().setInactiveTopicPolicies(namespace, inactive);
        check("inactive", inactive, () -> admin.namespaces().getInactiveTopicPolicies(namespace));
        AutoTopicCreationOverride rule = AutoTopicCreationOverride.builder()
                .allowAutoTopicCreation(true).topicType("partitioned").defaultNumPartitions(2).build();
        admin.namespaces().setAutoTopicCreation(namespace, rule);
        check("automatic topics", rule, () -> admin.namespaces().getAutoTopicCreation(namespace));
        admin.namespaces().removeAutoTopicCreation(namespace);
        admin.namespaces().setProperties(namespace, Map.of("a", "b"));
        check("properties", Map.of("a", "b"), () -> admin.namespaces().getProperties(namespace));
    }

    static void topics(PulsarAdmin admin, PulsarClient client, String namespace) throws Exception {
        String parted = "persistent://" + namespace + "/p";
        String topic = "persistent://" + namespace + "/t";
        admin.topics().createPartitionedTopic(parted, 3);
        admin.topics().updatePartitionedTopic(parted, 4);
        check("partitions", 4, () -> admin.topics().getPartitionedTopicMetadata(parted).partitions);
        check("partitioned", List.of(parted),
                () -> admin.topics().getPartitionedTopicList(namespace));
        admin.topics().createNonPartitionedTopic(topic);
        refused("topic again", 409, () -> {
            admin.topics().createNonPartitionedTopic(topic);
            return null;
        });
        check("topics", 5, () -> admin.topics().getList(namespace).size());
        admin.topics().createSubscription(topic, "s", MessageId.earliest);
        check("subscriptions", List.of("s"), () -> admin.topics().getSubscriptions(topic));
        List<MessageId> ids = new ArrayList<>();
        Consumer<byte[]> consumer = client.newConsumer().topic(parted).subscriptionName("s").subscribe();
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            for (int number = 0; number < 10; number++) {
                ids.add(producer.newMessage().key("k" + number % 2).property("x", "y" + number)
                        .value(("m" + number).getBytes()).send());
            }
            messages(admin, topic, ids);
            check("publishers", 1, () -> admin.topics().getStats(topic).getPublishers().size());
            check("partitioned stats", "4 4", () -> {
                var stats = admin.topics().getPartitionedStats(parted, true);
                return stats.getMetadata().partitions + " " + stats.getPartitions().size();
            });
            check("internal stats", 10L,
                    () -> admin.topics().getInternalStats(topic).numberOfEntries);
            refused("topic in use", 412, () -> {
                admin.topics().delete(topic);
                return null;
            });
        }
        cursors(admin, topic, ids);
        check("terminated", ids.get(9), () -> admin.topics().terminateTopic(topic));
        admin.topics().unload(parted);
        admin.topics().delete(topic);
        consumer.close();
        admin.topics().deletePartitionedTopic(parted);
        check("no topics", List.of(), () -> admin.topics().getList(namespace));
    }

    static void messages(PulsarAdmin admin, String topic, List<MessageId> ids) throws Exception {
        check("peek", "m0 m1 m2 k0 y2", () -> {
            StringBuilder seen = new StringBuilder();
            Message<byte[]> last = null;
            for (Message<byte[]> message : admin.topics().peekMessages(topic, "s", 3)) {
                seen.append(new String(message.getData())).append(' ');
                last = message;
            }
            return seen + last.getKey() + " " + last.getProperty("x");
        });
        MessageIdAdv fourth = (MessageIdAdv) ids.get(4);
        check("by id", "m4", () -> new String(admin.topics()
                .getMessageById(topic, fourth.getLedgerId(), fourth.getEntryId()).getData()));
        check("examine", "m0",
                () -> new String(admin.topics().examineMessage(topic, "earliest", 1).getData()));
        check("last id", ids.get(9), () -> admin.topics().getLastMessageId(topic));
        admin.topics().triggerCompaction(topic);
        check("compaction", LongRunningProcessStatus.Status.SUCCESS,
                () -> admin.topics().compactionStatus(topic).status);
    }

    static void cursors(PulsarAdmin admin, String topic, List<MessageId> ids) throws Exception {
        Call backlog = () -> admin.topics().getStats(topic).getSubscriptions().get("s").getMsgBacklog();
        admin.topics().skipMessages(topic, "s", 3);
        check("skip", 7, backlog);
        admin.topics().resetCursor(topic, "s", ids.get(5));
        check("reset", 5, backlog);
        admin.topics().resetCursor(topic, "s", System.currentTimeMillis() - 3_600_000);
        check("reset by time", 10, backlog);
        admin.topics().expireMessages(topic, "s", 3_600);
        check("nothing expired", 10, backlog);
        // Apache Pulsar refuses this while it is still checking for expired messages.
        check("expire by id", "done", () -> {
            admin.topics().expireMessages(topic, "s", ids.get(3), false);
            return "done";
        });
        check("expired by id", 6, backlog);
        admin.topics().skipAllMessages(topic, "s");
        check("skip all", 0, backlog);
        admin.topics().deleteSubscription(topic, "s");
        refused("no such subscription", 404, () -> {
            admin.topics().skipAllMessages(topic, "s");
            return null;
        });
    }
}
