module scenarios

go 1.18

require github.com/rabbitmq/amqp091-go v1.9.0

require expectations v0.0.0

replace expectations => ../expectations
