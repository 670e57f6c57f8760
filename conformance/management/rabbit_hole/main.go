// Checks the management API with rabbit-hole, the client library of Terraform's provider.
//
// Usage: scenarios URL AMQP-CONNECTION-NAME. Prints "ok", or what was wrong; then it exits with 1.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

func check(what string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", what, err)
		os.Exit(1)
	}
}

func expect(what string, holds bool, got interface{}) {
	if !holds {
		fmt.Printf("%s: got %+v\n", what, got)
		os.Exit(1)
	}
}

func status(what string, answer *http.Response, err error, wanted ...int) {
	check(what, err)
	for _, each := range wanted {
		if answer.StatusCode == each {
			return
		}
	}
	expect(what, false, answer.Status)
}

func main() {
	client, err := rabbithole.NewClient(os.Args[1], "guest", "guest")
	check("a client", err)
	name := os.Args[2]

	overview, err := client.Overview()
	check("overview", err)
	expect("exchange types", len(overview.ExchangeTypes) >= 4, overview.ExchangeTypes)
	expect("rates", overview.MessageStats.Publish > 0, overview.MessageStats)

	nodes, err := client.ListNodes()
	check("nodes", err)
	expect("one node", len(nodes) == 1 && nodes[0].IsRunning, nodes)
	_, err = client.GetNode(nodes[0].Name)
	check("a node", err)

	const vhost = "rabbit/hole"
	answer, err := client.PutVhost(vhost, rabbithole.VhostSettings{Description: "d"})
	status("a vhost", answer, err, 201, 204)
	_, err = client.GetVhost(vhost)
	check("the vhost", err)
	answer, err = client.PutUser("hole", rabbithole.UserSettings{Password: "p", Tags: rabbithole.UserTags{"management"}})
	status("a user", answer, err, 201, 204)
	answer, err = client.UpdatePermissionsIn(vhost, "hole", rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
	status("permissions", answer, err, 201, 204)
	answer, err = client.UpdatePermissionsIn(vhost, "guest", rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
	status("own permissions", answer, err, 201, 204)
	answer, err = client.UpdateTopicPermissionsIn(vhost, "hole", rabbithole.TopicPermissions{Exchange: "amq.topic", Write: ".*", Read: ".*"})
	status("topic permissions", answer, err, 201, 204)

	answer, err = client.DeclareQueue(vhost, "a/queue", rabbithole.QueueSettings{Durable: true, Arguments: map[string]interface{}{"x-max-length": 10}})
	status("a queue", answer, err, 201, 204)
	answer, err = client.DeclareExchange(vhost, "an exchange", rabbithole.ExchangeSettings{Type: "topic", Durable: true})
	status("an exchange", answer, err, 201, 204)
	answer, err = client.DeclareBinding(vhost, rabbithole.BindingInfo{Source: "an exchange", Destination: "a/queue", DestinationType: "queue", RoutingKey: "a.% key", Arguments: map[string]interface{}{"n": 1}})
	status("a binding", answer, err, 201)
	bindings, err := client.ListQueueBindings(vhost, "a/queue")
	check("bindings", err)
	expect("two bindings", len(bindings) == 2, bindings)
	for _, each := range bindings {
		if each.Source != "" {
			answer, err = client.DeleteBinding(vhost, each)
			status("deleting it", answer, err, 204)
		}
	}
	queue, err := client.GetQueue(vhost, "a/queue")
	check("the queue", err)
	expect("what was declared", queue.Durable && queue.Arguments["x-max-length"] == float64(10), queue)
	queues, err := client.PagedListQueuesWithParameters(map[string][]string{"page": {"1"}})
	check("a page of queues", err)
	expect("all of them", queues.TotalCount >= 2 && len(queues.Items) == queues.ItemCount, queues)
	exchange, err := client.GetExchange(vhost, "an exchange")
	check("the exchange", err)
	expect("its type", exchange.Type == "topic", exchange)

	answer, err = client.PutPolicy(vhost, "a policy", rabbithole.Policy{Pattern: "^a", ApplyTo: "queues", Priority: 1, Definition: rabbithole.PolicyDefinition{"max-length": 5}})
	status("a policy", answer, err, 201, 204)
	policy, err := client.GetPolicy(vhost, "a policy")
	check("the policy", err)
	expect("its definition", policy.Definition["max-length"] == float64(5), policy)
	answer, err = client.PutVhostLimits(vhost, rabbithole.VhostLimitsValues{"max-queues": 10})
	status("limits", answer, err, 201, 204)
	limits, err := client.GetVhostLimits(vhost)
	check("the limits", err)
	expect("one limit", len(limits) == 1 && limits[0].Value["max-queues"] == 10, limits)

	var connection *rabbithole.ConnectionInfo
	connections, err := client.ListConnections()
	check("connections", err)
	for i := range connections {
		if connections[i].ClientProperties["connection_name"] == name {
			connection = &connections[i]
		}
	}
	expect("the connection", connection != nil, connections)
	channels, err := client.ListChannels()
	check("channels", err)
	expect("its channel", len(channels) >= 1 && channels[0].ConnectionDetails.Name != "", channels)
	_, err = client.ListConsumers()
	check("consumers", err)
	_, err = client.GetConnection(connection.Name)
	check("one connection", err)
	answer, err = client.CloseConnection(connection.Name)
	status("closing it", answer, err, 204)
	// The connection's client does not read meanwhile, so the connection stays until the broker gives it up.
	for i, isThere := 0, true; isThere; i++ {
		left, err := client.ListConnections()
		check("connections", err)
		isThere = false
		for _, each := range left {
			isThere = isThere || each.Name == connection.Name && each.State == "running"
		}
		expect("it goes", i < 100, left)
		time.Sleep(50 * time.Millisecond)
	}

	definitions, err := client.ListDefinitions()
	check("definitions", err)
	expect("the queue in them", definitions.Queues != nil && len(*definitions.Queues) >= 1, definitions)
	health, err := client.HealthCheckAlarms()
	check("health", err)
	expect("no alarms", health.Ok(), health)
	identity, err := client.Whoami()
	check("whoami", err)
	expect("guest", identity.Name == "guest", identity)
	flags, err := client.ListFeatureFlags()
	check("feature flags", err)
	expect("some", len(flags) > 3, flags)

	answer, err = client.DeleteQueue(vhost, "a/queue")
	status("deleting the queue", answer, err, 204)
	answer, err = client.DeleteQueue(vhost, "a/queue")
	check("deleting it again", err)
	_, err = client.GetQueue(vhost, "a/queue")
	expect("a queue that is gone", err != nil, nil)
	answer, err = client.DeleteUser("hole")
	status("deleting the user", answer, err, 204)
	answer, err = client.DeleteVhost(vhost)
	status("deleting the vhost", answer, err, 204)
	fmt.Println("ok")
}
