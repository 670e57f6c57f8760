// Logs in with amqp091-go, obeying one command per line; see test_logins.py for the commands.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const patience = 30 * time.Second

var connection *amqp.Connection

func opened(url string, config amqp.Config) (string, error) {
	config.Vhost = "/"
	config.Dial = amqp.DefaultDial(patience)
	made, err := amqp.DialConfig(url, config)
	if err != nil {
		return "", err
	}
	connection = made
	return "in", nil
}

func external(host, port, authority, certificate, key string) (string, error) {
	read, err := os.ReadFile(authority)
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(read)
	secured := &tls.Config{RootCAs: pool}
	if certificate != "-" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return "", err
		}
		secured.Certificates = []tls.Certificate{pair}
	}
	return opened("amqps://"+host+":"+port+"/", amqp.Config{
		SASL: []amqp.Authentication{&amqp.ExternalAuth{}}, TLSClientConfig: secured})
}

func plain(host, port, user, password string) (string, error) {
	return opened("amqp://"+host+":"+port+"/", amqp.Config{
		SASL: []amqp.Authentication{&amqp.PlainAuth{Username: user, Password: password}}})
}

func publish(user, queue string) (string, error) {
	channel, err := connection.Channel()
	if err != nil {
		return "", err
	}
	ended := channel.NotifyClose(make(chan *amqp.Error, 1))
	if _, err = channel.QueueDeclare(queue, false, false, false, false, nil); err != nil {
		return "", err
	}
	if err = channel.Confirm(false); err != nil {
		return "", err
	}
	confirm, err := channel.PublishWithDeferredConfirmWithContext(
		context.Background(), "", queue, false, false,
		amqp.Publishing{UserId: user, Body: []byte("x")})
	if err != nil {
		return "", err
	}
	select {
	case <-confirm.Done():
		if !confirm.Acked() {
			break
		}
		return "confirmed", channel.Close()
	case reason := <-ended:
		return "", reason
	case <-time.After(patience):
	}
	return "", errors.New("no confirm came")
}

func carriedOut(words []string) (string, error) {
	switch words[0] {
	case "external":
		return external(words[1], words[2], words[3], words[4], words[5])
	case "plain":
		return plain(words[1], words[2], words[3], words[4])
	case "publish":
		return publish(words[1], words[2])
	case "renew":
		return "renewed", connection.UpdateSecret(words[1], "it was time")
	case "close":
		if connection != nil && !connection.IsClosed() {
			return "closed", connection.Close()
		}
		return "closed", nil
	}
	return "", fmt.Errorf("no command %s", words[0])
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		said, err := carriedOut(strings.Split(lines.Text(), "\t"))
		if err != nil {
			said = err.Error()
		}
		fmt.Println(strings.ReplaceAll(said, "\n", " "))
	}
}
