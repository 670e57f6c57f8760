module logins

go 1.18

require github.com/rabbitmq/amqp091-go v1.9.0
