package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	. "expectations"

	"github.com/apache/pulsar-client-go/pulsar"
)

// Every way to log in with this client. The files are in one directory; the URLs are those of one broker.
func logins(files string, urls []string) []scenario {
	all := []scenario{}
	add := func(name, at string, options pulsar.ClientOptions, welcome bool) {
		options.URL = at
		scheme := strings.SplitN(at, ":", 2)[0]
		if scheme == "https" || scheme == "pulsar+ssl" {
			if options.TLSTrustCertsFilePath == "" && !options.TLSAllowInsecureConnection {
				options.TLSTrustCertsFilePath = files + "/root.crt"
			}
		}
		all = append(all, scenario{name + " at " + scheme, func(pulsar.Client) { visit(options, welcome) }})
	}
	token := string(Must(os.ReadFile(files + "/token")))
	certificate, key := files+"/me.crt", files+"/me.key"
	proof := func(authentication pulsar.Authentication) pulsar.ClientOptions {
		return pulsar.ClientOptions{Authentication: authentication}
	}
	for _, at := range urls {
		add("nothing", at, pulsar.ClientOptions{}, true)
		add("a token", at, proof(pulsar.NewAuthenticationToken(token)), true)
		add("a supplied token", at, proof(pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) { return token, nil })), true)
		add("a token from a file", at, proof(pulsar.NewAuthenticationTokenFromFile(files+"/token")), true)
		add("a password", at, proof(Must(pulsar.NewAuthenticationBasic("me", "right"))), true)
		add("a wrong password", at, proof(Must(pulsar.NewAuthenticationBasic("me", "wrong"))), false)
		add("a wrong token", at, proof(pulsar.NewAuthenticationToken(token+"x")), false)
		where := Must(url.Parse(at))
		if where.Scheme != "https" && where.Scheme != "pulsar+ssl" {
			continue
		}
		add("a certificate", at, proof(pulsar.NewAuthenticationTLS(certificate, key)), true)
		add("a supplied certificate", at, proof(pulsar.NewAuthenticationFromTLSCertSupplier(func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certificate, key)
			return &pair, err
		})), true)
		add("another root", at, pulsar.ClientOptions{TLSTrustCertsFilePath: certificate}, false)
		add("any root", at, pulsar.ClientOptions{TLSAllowInsecureConnection: true}, true)
		add("the right name", at, pulsar.ClientOptions{TLSValidateHostname: true}, true)
	}
	return all
}

// Whether a client is admitted: either its message comes back, or it cannot even create a producer.
func visit(options pulsar.ClientOptions, welcome bool) {
	options.OperationTimeout = 5 * time.Second
	options.Logger = silentLogger()
	client, err := pulsar.NewClient(options)
	if err != nil {
		Expect(welcome, false, "whether it is let in: "+err.Error())
		return
	}
	defer client.Close()
	topic := fresh()
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic, MaxReconnectToBroker: new(uint)})
	if !welcome {
		Expect(err != nil, true, "whether it is refused")
		return
	}
	Check(err)
	consumer := subscribe(client, topic, pulsar.Exclusive)
	Must(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("hello")}))
	Expect(take(consumer, 1), []string{"hello"}, fmt.Sprintf("what came by %s", options.URL))
}
