package main

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"time"

	. "expectations"

	"github.com/apache/pulsar-client-go/pulsar"
)

const whole = time.Minute

// What applications do with transactions; the broker must support them.
var transactions = []scenario{
	{"transactions: committed", committed}, {"transactions: aborted", aborted},
	{"transactions: consumed and produced", processed}, {"transactions: acknowledged and aborted", taken},
	{"transactions: chunks", transactedChunks}, {"transactions: two at a time", twoAtATime},
	{"transactions: what has ended", ended}, {"transactions: its time is up", late},
}

func begin(client pulsar.Client, timeout time.Duration) pulsar.Transaction {
	return Must(client.NewTransaction(timeout))
}

func commit(transaction pulsar.Transaction) { Check(transaction.Commit(context.Background())) }

func abort(transaction pulsar.Transaction) { Check(transaction.Abort(context.Background())) }

func within(producer pulsar.Producer, transaction pulsar.Transaction, payloads ...string) {
	for _, each := range payloads {
		message := &pulsar.ProducerMessage{Payload: []byte(each), Transaction: transaction}
		Must(producer.Send(context.Background(), message))
	}
}

func receive(consumer pulsar.Consumer, count int) ([]pulsar.Message, []string) {
	got, payloads := []pulsar.Message{}, []string{}
	for n := range count {
		got = append(got, next(consumer, "message "+strconv.Itoa(n)))
		payloads = append(payloads, string(got[n].Payload()))
	}
	return got, payloads
}

func committed(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	within(producer, nil, span(0, 10)...)
	transaction := begin(client, whole)
	within(producer, transaction, span(10, 20)...)
	Expect(take(consumer, 10), span(0, 10), "what was sent plainly")
	silent(consumer)
	commit(transaction)
	Expect(transaction.GetState(), pulsar.TxnCommitted, "state")
	got, payloads := receive(consumer, 10)
	Expect(payloads, span(10, 20), "what was committed")
	other := begin(client, whole)
	for _, each := range got {
		Check(consumer.AckWithTxn(each, other))
	}
	commit(other)
	consumer.Close()
	consumer = subscribe(client, topic, pulsar.Exclusive)
	silent(consumer)
	consumer.Close()
	producer.Close()
}

func aborted(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	transaction := begin(client, whole)
	within(producer, transaction, span(0, 10)...)
	abort(transaction)
	Expect(transaction.GetState(), pulsar.TxnAborted, "state")
	silent(consumer)
	producer.Close()
	// From another producer, because this client's batches keep the transaction of the previous batch (its issue 1498).
	producer = Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	within(producer, nil, "after")
	Expect(take(consumer, 1), []string{"after"}, "what came afterwards")
	consumer.Close()
	producer.Close()
}

func processed(client pulsar.Client) {
	for _, kind := range []pulsar.SubscriptionType{pulsar.Exclusive, pulsar.Shared, pulsar.KeyShared} {
		from, to := fresh(), fresh()
		source, sink := subscribe(client, from, kind), subscribe(client, to, kind)
		send(client, pulsar.ProducerOptions{Topic: from}, 0, 10)
		producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: to}))
		transaction := begin(client, whole)
		got, _ := receive(source, 10)
		for _, each := range got {
			within(producer, transaction, string(each.Payload()))
			Check(source.AckWithTxn(each, transaction))
		}
		silent(sink)
		commit(transaction)
		_, payloads := receive(sink, 10)
		slices.SortFunc(payloads, func(one, other string) int { return Must(strconv.Atoi(one)) - Must(strconv.Atoi(other)) })
		Expect(payloads, span(0, 10), "results")
		source.Close()
		sink.Close()
		producer.Close()
	}
}

func taken(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Shared)
	send(client, single(topic), 0, 10)
	got, _ := receive(consumer, 10)
	transaction := begin(client, whole)
	for _, each := range got[:5] {
		Check(consumer.AckWithTxn(each, transaction))
	}
	other := begin(client, whole)
	Expect(consumer.AckWithTxn(got[0], other) != nil, true, "another transaction is refused")
	abort(transaction)
	consumer.Close()
	consumer = subscribe(client, topic, pulsar.Shared)
	got, payloads := receive(consumer, 10)
	slices.Sort(payloads)
	Expect(payloads, span(0, 10), "all of them again")
	last := begin(client, whole)
	for _, each := range got {
		Check(consumer.AckWithTxn(each, last))
	}
	commit(last)
	consumer.Close()
	consumer = subscribe(client, topic, pulsar.Shared)
	silent(consumer)
	consumer.Close()
}

func transactedChunks(client pulsar.Client) {
	topic := fresh()
	large := bytes.Repeat([]byte("arneb"), 11<<20/5)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic, EnableChunking: true, DisableBatching: true}))
	consumer := subscribe(client, topic, pulsar.Exclusive)
	transaction := begin(client, whole)
	within(producer, transaction, string(large))
	silent(consumer)
	commit(transaction)
	for _, end := range []func(pulsar.Transaction){abort, commit} {
		message := next(consumer, "the message")
		Expect(bytes.Equal(message.Payload(), large), true, "payload")
		transaction = begin(client, whole)
		Check(consumer.AckWithTxn(message, transaction))
		end(transaction)
		consumer.Close()
		consumer = subscribe(client, topic, pulsar.Exclusive)
	}
	silent(consumer)
	consumer.Close()
	producer.Close()
}

func twoAtATime(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Exclusive)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	one, other := begin(client, whole), begin(client, whole)
	for n := range 10 {
		within(producer, []pulsar.Transaction{one, other}[n%2], strconv.Itoa(n))
	}
	abort(other)
	commit(one)
	_, payloads := receive(consumer, 5)
	Expect(payloads, []string{"0", "2", "4", "6", "8"}, "of the one that was committed")
	silent(consumer)
	consumer.Close()
	producer.Close()
}

func ended(client pulsar.Client) {
	topic := fresh()
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	for _, end := range []func(pulsar.Transaction){abort, commit} {
		transaction := begin(client, whole)
		end(transaction)
		Expect(transaction.Commit(context.Background()) != nil, true, "committing again is refused")
		Expect(transaction.Abort(context.Background()) != nil, true, "aborting again is refused")
		_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x"), Transaction: transaction})
		Expect(err != nil, true, "sending is refused")
	}
	producer.Close()
}

func late(client pulsar.Client) {
	topic := fresh()
	consumer := subscribe(client, topic, pulsar.Shared)
	producer := Must(client.CreateProducer(pulsar.ProducerOptions{Topic: topic}))
	within(producer, nil, "plain")
	message := next(consumer, "the message")
	transaction := begin(client, 3*time.Second)
	Check(consumer.AckWithTxn(message, transaction))
	within(producer, transaction, "lost")
	Expect(string(next(consumer, "the message again").Payload()), "plain", "payload")
	silent(consumer)
	Expect(transaction.Commit(context.Background()) != nil, true, "committing is refused")
	consumer.Close()
	producer.Close()
}
