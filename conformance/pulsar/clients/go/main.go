// Common and unusual scenarios for pulsar-client-go. Prints one line per scenario: "ok name" or "FAILED name: why".
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	. "expectations"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const (
	patience = 30 * time.Second
	silence  = 500 * time.Millisecond
)

var numbers int

func fresh() string {
	numbers++
	return fmt.Sprintf("go-%d-%d", os.Getpid(), numbers)
}

func span(first, end int) []string {
	all := []string{}
	for n := first; n < end; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

func subscribe(client pulsar.Client, topic string, kind pulsar.SubscriptionType) pulsar.Consumer {
	return subscribeWith(client, pulsar.ConsumerOptions{Topic: topic, Type: kind})
}

func subscribeWith(client pulsar.Client, options pulsar.ConsumerOptions) pulsar.Consumer {
	options.SubscriptionName = "s"
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	return Must(client.Subscribe(options))
}

func send(client pulsar.Client, options pulsar.ProducerOptions, first, end int) []pulsar.MessageID {
	producer := Must(client.CreateProducer(options))
	defer producer.Close()
	ids := make([]pulsar.MessageID, end-first)
	failures := make(chan error, end-first)
	for n := first; n < end; n++ {
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(n))},
			func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				ids[n-first] = id
				failures <- err
			})
	}
	Check(producer.FlushWithCtx(context.Background()))
	for n := first; n < end; n++ {
		Check(<-failures)
	}
	return ids
}

func next(consumer pulsar.Consumer, what string) pulsar.Message {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	message, err := consumer.Receive(ctx)
	if err != nil {
		panic(what + " did not come: " + err.Error())
	}
	return message
}

func take(consumer pulsar.Consumer, count int) []string {
	taken := []string{}
	for n := 0; n < count; n++ {
		message := next(consumer, fmt.Sprintf("message %d", n))
		taken = append(taken, string(message.Payload()))
		Check(consumer.Ack(message))
	}
	return taken
}

func poll(consumer pulsar.Consumer, wait time.Duration) pulsar.Message {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	message, err := consumer.Receive(ctx)
	if err != nil {
		return nil
	}
	return message
}

func silent(consumer pulsar.Consumer) {
	if message := poll(consumer, silence); message != nil {
		panic("something more: " + string(message.Payload()))
	}
}

func single(topic string) pulsar.ProducerOptions {
	return pulsar.ProducerOptions{Topic: topic, DisableBatching: true}
}

func exclusive(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	send(client, pulsar.ProducerOptions{Topic: topic}, 0, 500)
	Expect(take(consumer, 500), span(0, 500), "order")
	_, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"})
	Expect(err != nil, true, "a second consumer is refused")
	consumer.Close()
}

func shared(client pulsar.Client) {
	topic := fresh()
	consumers := []pulsar.Consumer{}
	for range 3 {
		consumers = append(consumers, subscribeWith(client,
			pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, ReceiverQueueSize: 20}))
	}
	send(client, single(topic), 0, 300)
	seen := map[string]bool{}
	for deadline := time.Now().Add(patience); len(seen) < 300 && time.Now().Before(deadline); {
		for _, consumer := range consumers {
			if message := poll(consumer, 20*time.Millisecond); message != nil {
				Expect(seen[string(message.Payload())], false, "seen before")
				seen[string(message.Payload())] = true
				deadline = time.Now().Add(patience)
				Check(consumer.Ack(message))
			}
		}
	}
	Expect(len(seen), 300, "messages")
	for _, consumer := range consumers {
		consumer.Close()
	}
}

func failover(client pulsar.Client) {
	topic := fresh()
	one := subscribeWith(client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "a"})
	send(client, single(topic), 0, 10)
	Expect(take(one, 10), span(0, 10), "the first consumer")
	two := subscribeWith(client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Failover, Name: "b"})
	one.Close()
	send(client, single(topic), 10, 20)
	Expect(take(two, 10), span(10, 20), "the second consumer")
	two.Close()
}

func keyShared(client pulsar.Client) {
	topic := fresh()
	consumers := []pulsar.Consumer{
		subscribe(client, topic, pulsar.KeyShared), subscribe(client, topic, pulsar.KeyShared),
	}
	producer := Must(client.CreateProducer(single(topic)))
	for n := range 400 {
		message := &pulsar.ProducerMessage{Key: fmt.Sprintf("k%d", n%13), Payload: []byte(strconv.Itoa(n))}
		Must(producer.Send(context.Background(), message))
		if n == 130 {
			consumers = append(consumers, subscribe(client, topic, pulsar.KeyShared))
		}
		if n == 260 {
			consumers[0].Close()
			consumers = consumers[1:]
		}
	}
	producer.Close()
	seen, received := map[string][]int{}, 0
	for deadline := time.Now().Add(patience); received < 400 && time.Now().Before(deadline); {
		for _, consumer := range consumers {
			for message := poll(consumer, 10*time.Millisecond); message != nil; message = poll(consumer, 10*time.Millisecond) {
				received++
				deadline = time.Now().Add(patience)
				seen[message.Key()] = append(seen[message.Key()], Must(strconv.Atoi(string(message.Payload()))))
				Check(consumer.Ack(message))
			}
		}
	}
	Expect(received, 400, "messages")
	for key, order := range seen {
		Expect(slices.IsSorted(order), true, "order of "+key)
	}
	for _, consumer := range consumers {
		consumer.Close()
	}
}

func batches(client pulsar.Client) {
	topic := fresh()
	options := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, AckWithResponse: true, EnableBatchIndexAcknowledgment: true}
	consumer := subscribeWith(client, options)
	send(client, pulsar.ProducerOptions{Topic: topic, BatchingMaxMessages: 50, BatchingMaxPublishDelay: 200 * time.Millisecond}, 0, 50)
	odd := []string{}
	for n := range 50 {
		message := next(consumer, "a message")
		if n%2 == 0 {
			Check(consumer.Ack(message))
		} else {
			odd = append(odd, strconv.Itoa(n))
		}
	}
	consumer.Close()
	consumer = subscribeWith(client, options)
	Expect(take(consumer, 25), odd, "what was not acknowledged")
	silent(consumer)
	consumer.Close()
}

func chunks(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true, EnableChunking: true}))
	large := bytes.Repeat([]byte{7}, 12<<20)
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: large}))
	Expect(bytes.Equal(next(consumer, "the large message").Payload(), large), true, "the bytes")
	producer.Close()
	consumer.Close()
}

func compression(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	for _, kind := range []pulsar.CompressionType{pulsar.NoCompression, pulsar.LZ4, pulsar.ZLib, pulsar.ZSTD} {
		send(client, pulsar.ProducerOptions{Topic: topic, CompressionType: kind}, 0, 20)
		Expect(take(consumer, 20), span(0, 20), fmt.Sprint("compression ", kind))
	}
	consumer.Close()
}

func properties(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	producer := Must(client.CreateProducer(single(topic)))
	happened := time.UnixMilli(1234567)
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{
		Key: "key", OrderingKey: "ordering", Properties: map[string]string{"a": "1"}, EventTime: happened, Payload: []byte("x"),
	}))
	message := next(consumer, "the message")
	Expect(message.Key(), "key", "key")
	Expect(message.OrderingKey(), "ordering", "ordering key")
	Expect(message.Properties(), map[string]string{"a": "1"}, "properties")
	Expect(message.EventTime().UnixMilli(), happened.UnixMilli(), "event time")
	producer.Close()
	consumer.Close()
}

func cumulative(client pulsar.Client) {
	topic := fresh()
	options := pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Exclusive, AckWithResponse: true}
	consumer := subscribeWith(client, options)
	send(client, single(topic), 0, 10)
	for n := range 6 {
		message := next(consumer, "a message")
		if n == 5 {
			Check(consumer.AckCumulative(message))
		}
	}
	consumer.Close()
	consumer = subscribeWith(client, options)
	Expect(take(consumer, 4), span(6, 10), "the rest")
	consumer.Close()
}

func seeking(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	ids := send(client, single(topic), 0, 10)
	take(consumer, 10)
	Check(consumer.Seek(ids[3]))
	Expect(take(consumer, 7), span(3, 10), "from the fourth")
	Check(consumer.SeekByTime(time.Now().Add(-time.Hour)))
	Expect(take(consumer, 10), span(0, 10), "from an hour ago")
	consumer.Close()
}

func reading(client pulsar.Client) {
	topic := fresh()
	ids := send(client, single(topic), 0, 10)
	reader := Must(client.CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: ids[6]}))
	got := []string{}
	for reader.HasNext() {
		got = append(got, string(Must(reader.Next(context.Background())).Payload()))
	}
	Expect(got, span(7, 10), "behind the seventh")
	reader.Close()
	reader = Must(client.CreateReader(pulsar.ReaderOptions{Topic: topic, StartMessageID: ids[6], StartMessageIDInclusive: true}))
	Expect(string(Must(reader.Next(context.Background())).Payload()), "6", "inclusive")
	reader.Close()
}

func patterns(client pulsar.Client) {
	prefix := fresh()
	send(client, single(prefix+"-a"), 0, 1)
	consumer := Must(client.Subscribe(pulsar.ConsumerOptions{
		TopicsPattern: "persistent://public/default/" + prefix + "-.*", SubscriptionName: "s",
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, AutoDiscoveryPeriod: time.Second,
	}))
	Expect(take(consumer, 1), span(0, 1), "the topic that was there")
	send(client, single(prefix+"-b"), 1, 2)
	Expect(take(consumer, 1), span(1, 2), "the topic that came")
	consumer.Close()
}

func severalTopics(client pulsar.Client) {
	topics := []string{fresh(), fresh()}
	consumer := Must(client.Subscribe(pulsar.ConsumerOptions{Topics: topics, SubscriptionName: "s",
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest}))
	send(client, single(topics[0]), 0, 1)
	send(client, single(topics[1]), 1, 2)
	got := take(consumer, 2)
	slices.Sort(got)
	Expect(got, span(0, 2), "both")
	consumer.Close()
}

func negative(client pulsar.Client) {
	topic := fresh()
	consumer := subscribeWith(client, pulsar.ConsumerOptions{Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 100 * time.Millisecond})
	send(client, single(topic), 0, 1)
	for count := range 3 {
		message := next(consumer, "the message")
		Expect(message.RedeliveryCount(), uint32(count), "redelivery count")
		consumer.Nack(message)
	}
	take(consumer, 1)
	silent(consumer)
	consumer.Close()
}

func deadLetters(client pulsar.Client) {
	topic := fresh()
	consumer := subscribeWith(client, pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, NackRedeliveryDelay: 50 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 3, DeadLetterTopic: topic + "-dead", InitialSubscriptionName: "s"},
	})
	send(client, single(topic), 0, 2)
	for range 6 {
		consumer.Nack(next(consumer, "a delivery"))
	}
	dead := subscribe(client, topic+"-dead", pulsar.Shared)
	got := take(dead, 2)
	slices.Sort(got)
	Expect(got, span(0, 2), "dead letters")
	silent(consumer)
	consumer.Close()
	dead.Close()
}

func retries(client pulsar.Client) {
	topic := fresh()
	consumer := subscribeWith(client, pulsar.ConsumerOptions{
		Topic: topic, Type: pulsar.Shared, RetryEnable: true,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2, RetryLetterTopic: topic + "-again", DeadLetterTopic: topic + "-dead", InitialSubscriptionName: "s"},
	})
	send(client, single(topic), 0, 1)
	dead := subscribe(client, topic+"-dead", pulsar.Shared)
	for range 3 {
		message := poll(consumer, patience)
		if message == nil {
			break
		}
		consumer.ReconsumeLater(message, 200*time.Millisecond)
	}
	Expect(take(dead, 1), span(0, 1), "the dead letter")
	consumer.Close()
	dead.Close()
}

func delayed(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Shared)
	producer := Must(client.CreateProducer(single(topic)))
	began := time.Now()
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("late"), DeliverAfter: 3 * time.Second}))
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("now")}))
	Expect(take(consumer, 2), []string{"now", "late"}, "order")
	took := time.Since(began)
	Expect(took >= 3*time.Second && took < patience, true, "on time: "+took.String())
	producer.Close()
	consumer.Close()
}

func schemas(client pulsar.Client) {
	type order struct {
		Number int    `json:"number"`
		Shop   string `json:"shop"`
	}
	topic := fresh()
	schema := pulsar.NewJSONSchema(`{"type":"record","name":"Order","fields":[{"name":"number","type":"int"},{"name":"shop","type":"string"}]}`, nil)
	consumer := subscribeWith(client, pulsar.ConsumerOptions{Topic: topic, Schema: schema})
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: schema}))
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{Value: order{7, "Oslo"}}))
	var got order
	Check(next(consumer, "the message").GetSchemaValue(&got))
	Expect(got, order{7, "Oslo"}, "value")
	_, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: pulsar.NewInt64Schema(nil)})
	Expect(err != nil, true, "a producer of another schema is refused")
	producer.Close()
	consumer.Close()
}

func names(client pulsar.Client) {
	topic := fresh()
	options := pulsar.ProducerOptions{Topic: topic, Name: "me", MaxReconnectToBroker: new(uint)}
	producer := Must(client.CreateProducer(options))
	Expect(producer.Name(), "me", "name")
	_, err := client.CreateProducer(options)
	Expect(err != nil, true, "a second producer of the name is refused")
	producer.Close()
}

func silentLogger() log.Logger {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	return log.NewLoggerWithLogrus(quiet)
}

type scenario struct {
	name string
	run  func(pulsar.Client)
}

func main() {
	transacting := slices.Contains(os.Args[2:], "transactions")
	client := Must(pulsar.NewClient(pulsar.ClientOptions{
		URL: os.Args[1], Logger: silentLogger(), EnableTransaction: transacting}))
	scenarios := []scenario{
		{"exclusive", exclusive}, {"shared", shared}, {"failover", failover},
		{"key shared under joins and leaves", keyShared}, {"batches acknowledged in part", batches},
		{"chunks", chunks}, {"compression", compression}, {"properties", properties},
		{"cumulative acknowledgement", cumulative}, {"seeking", seeking}, {"reading", reading},
		{"patterns", patterns}, {"several topics", severalTopics}, {"negative acknowledgement", negative},
		{"dead letters", deadLetters}, {"retry letters", retries}, {"delayed delivery", delayed},
		{"schemas", schemas}, {"producer names", names},
	}
	isGroup := transacting
	if transacting {
		scenarios = slices.DeleteFunc(transactions, func(each scenario) bool { return slices.Contains(os.Args[3:], each.name) })
	}
	if len(os.Args) > 3 && os.Args[2] == "logins" {
		isGroup = true
		scenarios = logins(os.Args[3], append([]string{os.Args[1]}, os.Args[4:]...))
	}
	failed := false
	for _, each := range scenarios {
		if len(os.Args) > 2 && !isGroup && !slices.Contains(os.Args[2:], each.name) {
			continue
		}
		func() {
			defer func() {
				if why := recover(); why != nil {
					failed = true
					fmt.Printf("FAILED %s: %v\n", each.name, why)
				} else {
					fmt.Println("ok", each.name)
				}
			}()
			each.run(client)
		}()
	}
	client.Close()
	if failed {
		os.Exit(1)
	}
}
