// Common and unusual scenarios for amqp091-go. Prints one line per scenario: "ok name" or "FAILED name: why".
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	. "expectations"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second

var (
	url     = os.Args[1]
	numbers int
)

func fresh() string {
	numbers++
	return fmt.Sprintf("amqp091-go-%d-%d", os.Getpid(), numbers)
}

func next[T any](channel <-chan T, what string) T {
	select {
	case value := <-channel:
		return value
	case <-time.After(patience):
		panic(what + " did not come")
	}
}

func publish(channel *amqp.Channel, queue string, message amqp.Publishing) {
	Check(channel.PublishWithContext(context.Background(), "", queue, false, false, message))
}

func text(body string) amqp.Publishing { return amqp.Publishing{Body: []byte(body)} }

func queueOf(channel *amqp.Channel) string {
	return Must(channel.QueueDeclare(fresh(), true, false, false, false, nil)).Name
}

func confirmed(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	Check(channel.Confirm(false))
	queue := queueOf(channel)
	var waiting []*amqp.DeferredConfirmation
	for n := 0; n < 200; n++ {
		waiting = append(waiting, Must(channel.PublishWithDeferredConfirm(
			"", queue, false, false, text(fmt.Sprint(n)))))
	}
	for _, each := range waiting {
		Expect(each.Wait(), true, "confirm")
	}
	deliveries := Must(channel.Consume(queue, "", false, false, false, false, nil))
	for n := 0; n < 200; n++ {
		delivery := next(deliveries, "a message")
		Expect(string(delivery.Body), fmt.Sprint(n), "order")
		Check(delivery.Ack(false))
	}
	Must(channel.QueueDelete(queue, false, false, false))
}

func requeued(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	publish(channel, queue, text("again"))
	deliveries := Must(channel.Consume(queue, "", false, false, false, false, nil))
	first := next(deliveries, "the message")
	Expect(first.Redelivered, false, "redelivered at first")
	Check(first.Nack(false, true))
	second := next(deliveries, "the message again")
	Expect(second.Redelivered, true, "redelivered")
	Check(second.Ack(false))
	Must(channel.QueueDelete(queue, false, false, false))
}

func prefetch(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	for n := 0; n < 5; n++ {
		publish(channel, queue, text(fmt.Sprint(n)))
	}
	Check(channel.Qos(2, 0, false))
	deliveries := Must(channel.Consume(queue, "", false, false, false, false, nil))
	next(deliveries, "the first")
	second := next(deliveries, "the second")
	state := Must(channel.QueueDeclarePassive(queue, true, false, false, false, nil))
	Expect(state.Messages, 3, "ready")
	Check(second.Ack(true))
	next(deliveries, "the third")
	Must(channel.QueueDelete(queue, false, false, false))
}

func returned(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	Check(channel.Confirm(false))
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	waiting := Must(channel.PublishWithDeferredConfirm("", fresh(), true, false, text("back")))
	back := next(returns, "the return")
	Expect(int(back.ReplyCode), 312, "code")
	Expect(back.ReplyText, "NO_ROUTE", "text")
	Expect(waiting.Wait(), true, "confirm")
}

func allTypes(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	now := time.Unix(1700000000, 0)
	headers := amqp.Table{
		"bool": true, "int8": int8(-1), "int16": int16(-300), "int32": int32(-70000),
		"int64": int64(1) << 40, "float32": float32(1.5), "float64": 2.5, "text": "grün",
		"bytes": []byte("b"), "time": now, "decimal": amqp.Decimal{Scale: 2, Value: 12345},
		"list": []interface{}{int32(1), "two"}, "table": amqp.Table{"deep": "x"}, "nothing": nil,
	}
	Check(headers.Validate())
	publish(channel, queue, amqp.Publishing{
		Headers: headers, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2,
		Priority: 4, CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m",
		Timestamp: now, Type: "t", UserId: "guest", AppId: "a",
	})
	got, found, err := channel.Get(queue, true)
	Check(err)
	Expect(found, true, "found")
	Expect(got.Headers, headers, "headers")
	Expect([]string{got.ContentType, got.ContentEncoding, got.CorrelationId, got.ReplyTo,
		got.Expiration, got.MessageId, got.Type, got.UserId, got.AppId},
		[]string{"text/plain", "utf-8", "c", "r", "60000", "m", "t", "guest", "a"}, "properties")
	Expect(got.Timestamp.Unix(), now.Unix(), "timestamp")
	Must(channel.QueueDelete(queue, false, false, false))
}

func large(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	body := bytes.Repeat([]byte("0123456789"), 100_001)
	publish(channel, queue, amqp.Publishing{Body: body})
	got, found, err := channel.Get(queue, true)
	Check(err)
	Expect(found && bytes.Equal(got.Body, body), true, "body")
	Must(channel.QueueDelete(queue, false, false, false))
}

func transaction(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	Check(channel.Tx())
	publish(channel, queue, text("taken back"))
	Check(channel.TxRollback())
	publish(channel, queue, text("kept"))
	Check(channel.TxCommit())
	got, found, err := channel.Get(queue, false)
	Check(err)
	Expect(found, true, "found")
	Expect(string(got.Body), "kept", "body")
	Check(got.Ack(false))
	Check(channel.TxCommit())
	Must(channel.QueueDelete(queue, false, false, false))
}

func expired(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	dead := queueOf(channel)
	queue := Must(channel.QueueDeclare(fresh(), true, false, false, false, amqp.Table{
		"x-message-ttl": int64(50), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
		"x-max-length": 1000, "x-expires": int32(600_000),
	})).Name
	late := text("late")
	late.Headers = amqp.Table{"kept": int32(1)}
	publish(channel, queue, late)
	got := next(Must(channel.Consume(dead, "", true, false, false, false, nil)), "the dead letter")
	Expect(got.Headers["kept"], int32(1), "header")
	death := got.Headers["x-death"].([]interface{})[0].(amqp.Table)
	Expect(death["queue"], queue, "queue")
	Expect(death["reason"], "expired", "reason")
	Expect(death["count"], int64(1), "count")
	Expect(death["exchange"], "", "exchange")
	Expect(death["routing-keys"], []interface{}{queue}, "routing keys")
	Expect(time.Since(death["time"].(time.Time)) < time.Hour, true, "time")
	Must(channel.QueueDelete(queue, false, false, false))
	Must(channel.QueueDelete(dead, false, false, false))
}

func poison(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	dead := queueOf(channel)
	queue := Must(channel.QueueDeclare(fresh(), true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "",
		"x-dead-letter-routing-key": dead,
	})).Name
	publish(channel, queue, text("poison"))
	deliveries := Must(channel.Consume(queue, "", false, false, false, false, nil))
	for n := int64(0); n < 3; n++ {
		delivery := next(deliveries, "the message")
		count, _ := delivery.Headers["x-delivery-count"].(int64)
		Expect(count, n, "count")
		Check(delivery.Nack(false, true))
	}
	got := next(Must(channel.Consume(dead, "", true, false, false, false, nil)), "the dead letter")
	death := got.Headers["x-death"].([]interface{})[0].(amqp.Table)
	Expect(death["reason"], "delivery_limit", "reason")
	Must(channel.QueueDelete(queue, false, false, false))
	Must(channel.QueueDelete(dead, false, false, false))
}

func stream(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	Check(channel.Confirm(false))
	queue := Must(channel.QueueDeclare(fresh(), true, false, false, false,
		amqp.Table{"x-queue-type": "stream", "x-max-length-bytes": int64(1) << 30})).Name
	for n := 0; n < 10; n++ {
		waiting := Must(channel.PublishWithDeferredConfirm(
			"", queue, false, false, text(fmt.Sprint(n))))
		Expect(waiting.Wait(), true, "confirm")
	}
	for first, offset := range map[int64]interface{}{0: "first", 4: int64(4)} {
		reading := Must(connection.Channel())
		Check(reading.Qos(100, 0, false))
		deliveries := Must(reading.Consume(queue, "", false, false, false, false,
			amqp.Table{"x-stream-offset": offset}))
		for n := first; n < 10; n++ {
			delivery := next(deliveries, "a message")
			Expect(string(delivery.Body), fmt.Sprint(n), "order")
			Expect(delivery.Headers["x-stream-offset"], n, "offset")
			Check(delivery.Ack(false))
		}
		Check(reading.Close())
	}
	Must(channel.QueueDelete(queue, false, false, false))
}

func mistake(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	_, err := channel.QueueDeclarePassive(fresh(), true, false, false, false, nil)
	var refused *amqp.Error
	Expect(errors.As(err, &refused), true, "kind of error")
	Expect(refused.Code, amqp.NotFound, "code")
	Check(Must(connection.Channel()).Close())
}

func cancelled(connection *amqp.Connection) {
	channel := Must(connection.Channel())
	queue := queueOf(channel)
	cancels := channel.NotifyCancel(make(chan string, 1))
	Must(channel.Consume(queue, "mine", false, false, false, false, nil))
	Must(channel.QueueDelete(queue, false, false, false))
	Expect(next(cancels, "the cancel"), "mine", "consumer tag")
}

func lost(*amqp.Connection) {
	var socket net.Conn
	config := amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		var err error
		socket, err = net.DialTimeout(network, address, patience)
		return socket, err
	}}
	first := Must(amqp.DialConfig(url, config))
	channel := Must(first.Channel())
	queue := queueOf(channel)
	publish(channel, queue, amqp.Publishing{Body: []byte("kept"), DeliveryMode: 2})
	next(Must(channel.Consume(queue, "", false, false, false, false, nil)), "the message")
	closed := first.NotifyClose(make(chan *amqp.Error, 1))
	Check(socket.Close())
	next(closed, "the close")
	second := Must(amqp.Dial(url))
	defer second.Close()
	channel = Must(second.Channel())
	deliveries := Must(channel.Consume(queue, "", false, false, false, false, nil))
	Expect(next(deliveries, "the message again").Redelivered, true, "redelivered")
	Must(channel.QueueDelete(queue, false, false, false))
}

func heartbeats(*amqp.Connection) {
	idle := Must(amqp.DialConfig(url, amqp.Config{Heartbeat: 2 * time.Second}))
	time.Sleep(7 * time.Second)
	Check(Must(idle.Channel()).Close())
	Check(idle.Close())
}

func run(name string, scenario func(*amqp.Connection)) (ok bool) {
	connection := Must(amqp.Dial(url))
	defer connection.Close()
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Printf("FAILED %s: %v\n", name, problem)
			ok = false
		}
	}()
	scenario(connection)
	fmt.Println("ok", name)
	return true
}

func main() {
	failed := false
	for _, each := range []struct {
		name     string
		scenario func(*amqp.Connection)
	}{
		{"confirmed publishes come back in order", confirmed},
		{"a rejected message comes again, redelivered", requeued},
		{"a prefetch holds back what is too much", prefetch},
		{"an unroutable mandatory message is returned", returned},
		{"headers of all types and every property come back", allTypes},
		{"a body of many frames comes back whole", large},
		{"a transaction is kept or taken back", transaction},
		{"what expires is dead-lettered and says why", expired},
		{"a quorum queue gives a message up after its limit", poison},
		{"a stream is read again from where one says", stream},
		{"a mistake closes its channel only", mistake},
		{"a deleted queue cancels its consumer", cancelled},
		{"what a lost connection held comes again on a new one", lost},
		{"heartbeats keep an idle connection", heartbeats},
	} {
		failed = !run(each.name, each.scenario) || failed
	}
	if failed {
		os.Exit(1)
	}
}
