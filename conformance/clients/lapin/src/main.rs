//! Common and unusual scenarios for lapin. Prints one line for each: "ok name" or "FAILED name: why".

use std::{
    error::Error,
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures_lite::StreamExt;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ErrorKind,
    ExchangeKind, message::Delivery, options::*, types::*,
};
use tokio::{io, net, task, time};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(30);
static NUMBERS: AtomicU32 = AtomicU32::new(0);

fn fresh() -> ShortString {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    format!("lapin-{}-{number}", std::process::id()).into()
}

async fn connected(url: &str) -> lapin::Result<Connection> {
    Connection::connect(url, ConnectionProperties::default()).await
}

async fn new_queue(channel: &Channel) -> lapin::Result<ShortString> {
    let queue =
        channel.queue_declare(fresh(), QueueDeclareOptions::durable(), FieldTable::default());
    Ok(queue.await?.name().clone())
}

async fn gone(channel: &Channel, queue: ShortString) -> Outcome {
    channel.queue_delete(queue, QueueDeleteOptions::default()).await?;
    Ok(())
}

async fn publish(
    channel: &Channel,
    queue: &ShortString,
    body: &[u8],
    properties: BasicProperties,
) -> lapin::Result<lapin::PublisherConfirm> {
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), queue.clone(), options, body, properties).await
}

async fn consume(channel: &Channel, queue: &ShortString) -> lapin::Result<Consumer> {
    let options = BasicConsumeOptions::default();
    channel.basic_consume(queue.clone(), "".into(), options, FieldTable::default()).await
}

async fn next(consumer: &mut Consumer) -> Result<Delivery, Box<dyn Error + Send + Sync>> {
    let found = time::timeout(PATIENCE, consumer.next()).await.map_err(|_| "nothing came")?;
    Ok(found.ok_or("the consumer ended")??)
}

async fn in_order(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = new_queue(&channel).await?;
    let mut confirms = Vec::new();
    for number in 0..200 {
        let body = number.to_string();
        let properties = BasicProperties::default().with_delivery_mode(2);
        confirms.push(publish(&channel, &queue, body.as_bytes(), properties).await?);
    }
    for confirm in confirms {
        assert_eq!(confirm.await?, Confirmation::Ack(None));
    }
    let mut consumer = consume(&channel, &queue).await?;
    for number in 0..200 {
        let delivery = next(&mut consumer).await?;
        assert_eq!(delivery.data, number.to_string().as_bytes());
        delivery.ack(BasicAckOptions::default()).await?;
    }
    gone(&channel, queue).await
}

async fn rejected(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let queue = new_queue(&channel).await?;
    publish(&channel, &queue, b"again", BasicProperties::default()).await?.await?;
    let mut consumer = consume(&channel, &queue).await?;
    let first = next(&mut consumer).await?;
    assert!(!first.redelivered);
    first.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
    let second = next(&mut consumer).await?;
    assert!(second.redelivered);
    second.ack(BasicAckOptions::default()).await?;
    gone(&channel, queue).await
}

async fn prefetch(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let queue = new_queue(&channel).await?;
    for _ in 0..5 {
        publish(&channel, &queue, b"x", BasicProperties::default()).await?.await?;
    }
    channel.basic_qos(2, BasicQosOptions::default()).await?;
    let mut consumer = consume(&channel, &queue).await?;
    next(&mut consumer).await?;
    let second = next(&mut consumer).await?;
    assert!(time::timeout(Duration::from_millis(300), consumer.next()).await.is_err());
    second.ack(BasicAckOptions { multiple: true }).await?;
    next(&mut consumer).await?;
    gone(&channel, queue).await
}

async fn returned(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let properties = BasicProperties::default();
    let confirm = channel.basic_publish("".into(), fresh(), options, b"back", properties);
    let message = confirm.await?.await?.take_message().ok_or("it was not returned")?;
    assert_eq!(message.reply_code, 312);
    assert_eq!(message.delivery.data, b"back");
    Ok(())
}

async fn whole(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let queue = new_queue(&channel).await?;
    let mut deep = FieldTable::default();
    deep.insert("deeper".into(), AMQPValue::LongString("grün".into()));
    let mut headers = FieldTable::default();
    let list = vec![AMQPValue::Boolean(true), AMQPValue::FieldTable(deep.clone())];
    for (name, value) in [
        ("bool", AMQPValue::Boolean(false)),
        ("i8", AMQPValue::ShortShortInt(-1)),
        ("u8", AMQPValue::ShortShortUInt(255)),
        ("i16", AMQPValue::ShortInt(-300)),
        ("u16", AMQPValue::ShortUInt(65_535)),
        ("i32", AMQPValue::LongInt(-70_000)),
        ("u32", AMQPValue::LongUInt(4_000_000_000)),
        ("i64", AMQPValue::LongLongInt(i64::MIN)),
        ("f32", AMQPValue::Float(1.5)),
        ("f64", AMQPValue::Double(2.5)),
        ("decimal", AMQPValue::DecimalValue(DecimalValue { scale: 2, value: 12_345 })),
        ("text", AMQPValue::LongString("text".into())),
        ("list", AMQPValue::FieldArray(list.into())),
        ("time", AMQPValue::Timestamp(1_700_000_000)),
        ("table", AMQPValue::FieldTable(deep)),
        ("bytes", AMQPValue::ByteArray(vec![0, 1, 2].into())),
        ("nothing", AMQPValue::Void),
    ] {
        headers.insert(name.into(), value);
    }
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("utf-8".into())
        .with_headers(headers)
        .with_delivery_mode(2)
        .with_priority(4)
        .with_correlation_id("c".into())
        .with_reply_to("r".into())
        .with_expiration("60000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_type("t".into())
        .with_user_id("guest".into())
        .with_app_id("a".into());
    let body = b"0123456789".repeat(100_003);
    publish(&channel, &queue, &body, properties.clone()).await?.await?;
    let mut consumer = consume(&channel, &queue).await?;
    let delivery = next(&mut consumer).await?;
    assert_eq!(delivery.properties, properties);
    assert!(delivery.data == body, "the body is another");
    delivery.ack(BasicAckOptions::default()).await?;
    gone(&channel, queue).await
}

async fn topics(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let (outer, inner, queue) = (fresh(), fresh(), new_queue(&channel).await?);
    let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
    for name in [&outer, &inner] {
        let none = FieldTable::default();
        channel.exchange_declare(name.clone(), ExchangeKind::Topic, options, none).await?;
    }
    let (bind, none) = (ExchangeBindOptions::default(), FieldTable::default());
    channel.exchange_bind(inner.clone(), outer.clone(), "a.#".into(), bind, none).await?;
    let (bind, none) = (QueueBindOptions::default(), FieldTable::default());
    channel.queue_bind(queue.clone(), inner, "*.b.*".into(), bind, none).await?;
    for key in ["a.b.c", "a.x.c", "b.b.c", "a.b.d"] {
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let sent =
            channel.basic_publish(outer.clone(), key.into(), options, key.as_bytes(), properties);
        sent.await?.await?;
    }
    let mut consumer = consume(&channel, &queue).await?;
    assert_eq!(next(&mut consumer).await?.data, b"a.b.c");
    assert_eq!(next(&mut consumer).await?.data, b"a.b.d");
    gone(&channel, queue).await
}

async fn transaction(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let queue = new_queue(&channel).await?;
    channel.tx_select().await?;
    publish(&channel, &queue, b"taken back", BasicProperties::default()).await?.await?;
    channel.tx_rollback().await?;
    publish(&channel, &queue, b"kept", BasicProperties::default()).await?.await?;
    channel.tx_commit().await?;
    let found = channel.basic_get(queue.clone(), BasicGetOptions { no_ack: true }).await?;
    let found = found.ok_or("nothing there")?;
    assert_eq!((found.delivery.data.as_slice(), found.message_count), (b"kept".as_slice(), 0));
    channel.tx_commit().await?;
    gone(&channel, queue).await
}

/// Declares a durable queue with arguments; returns its name.
async fn special(channel: &Channel, arguments: &[(&str, AMQPValue)]) -> lapin::Result<ShortString> {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    let queue = channel.queue_declare(fresh(), QueueDeclareOptions::durable(), table);
    Ok(queue.await?.name().clone())
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn header(delivery: &Delivery, name: &str) -> Option<AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name).cloned()
}

/// The queue in which a dead letter died last, and the reason.
fn death(delivery: &Delivery) -> Result<FieldTable, Box<dyn Error + Send + Sync>> {
    match header(delivery, "x-death") {
        Some(AMQPValue::FieldArray(deaths)) => match deaths.as_slice().first() {
            Some(AMQPValue::FieldTable(death)) => Ok(death.clone()),
            other => Err(format!("expected a death, got {other:?}").into()),
        },
        other => Err(format!("expected deaths, got {other:?}").into()),
    }
}

async fn expired(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let dead = new_queue(&channel).await?;
    let queue = special(
        &channel,
        &[
            ("x-message-ttl", AMQPValue::LongUInt(50)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(dead.as_str())),
            ("x-max-length", AMQPValue::ShortUInt(1000)),
            ("x-expires", AMQPValue::LongLongInt(600_000)),
        ],
    )
    .await?;
    publish(&channel, &queue, b"late", BasicProperties::default()).await?.await?;
    let death = death(&next(&mut consume(&channel, &dead).await?).await?)?;
    let death = death.inner();
    assert_eq!(death.get("queue"), Some(&text(queue.as_str())));
    assert_eq!(death.get("reason"), Some(&text("expired")));
    assert_eq!(death.get("count"), Some(&AMQPValue::LongLongInt(1)));
    assert_eq!(death.get("exchange"), Some(&text("")));
    let keys = AMQPValue::FieldArray(vec![text(queue.as_str())].into());
    assert_eq!(death.get("routing-keys"), Some(&keys));
    assert!(matches!(death.get("time"), Some(AMQPValue::Timestamp(_))));
    gone(&channel, queue).await?;
    gone(&channel, dead).await
}

async fn poison(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let dead = new_queue(&channel).await?;
    let queue = special(
        &channel,
        &[
            ("x-queue-type", text("quorum")),
            ("x-delivery-limit", AMQPValue::LongInt(2)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(dead.as_str())),
        ],
    )
    .await?;
    publish(&channel, &queue, b"poison", BasicProperties::default()).await?.await?;
    let mut consumer = consume(&channel, &queue).await?;
    for number in 0..3 {
        let delivery = next(&mut consumer).await?;
        let count = match header(&delivery, "x-delivery-count") {
            None => 0,
            Some(AMQPValue::LongLongInt(count)) => count,
            other => panic!("expected a count, got {other:?}"),
        };
        assert_eq!(count, number);
        delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?;
    }
    let letter = next(&mut consume(&channel, &dead).await?).await?;
    assert_eq!(death(&letter)?.inner().get("reason"), Some(&text("delivery_limit")));
    gone(&channel, queue).await?;
    gone(&channel, dead).await
}

async fn stream(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = special(&channel, &[("x-queue-type", text("stream"))]).await?;
    for number in 0..10 {
        let body = number.to_string();
        publish(&channel, &queue, body.as_bytes(), BasicProperties::default()).await?.await?;
    }
    for (offset, first) in [(text("first"), 0), (AMQPValue::LongLongInt(4), 4)] {
        let reading = connection.create_channel().await?;
        reading.basic_qos(100, BasicQosOptions::default()).await?;
        let mut from = FieldTable::default();
        from.insert("x-stream-offset".into(), offset);
        let options = BasicConsumeOptions::default();
        let mut consumer = reading.basic_consume(queue.clone(), "".into(), options, from).await?;
        for number in first..10 {
            let delivery = next(&mut consumer).await?;
            assert_eq!(delivery.data, number.to_string().as_bytes());
            let offset = header(&delivery, "x-stream-offset");
            assert_eq!(offset, Some(AMQPValue::LongLongInt(number)));
            delivery.ack(BasicAckOptions::default()).await?;
        }
        reading.close(200, "done".into()).await?;
    }
    gone(&channel, queue).await
}

async fn mistake(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let refused = channel.queue_declare(fresh(), options, FieldTable::default()).await;
    match refused.expect_err("a queue that is not there").kind() {
        ErrorKind::ProtocolError(error) => assert_eq!(error.get_id(), 404),
        other => panic!("expected 404, got {other:?}"),
    }
    let other = connection.create_channel().await?;
    other.close(200, "done".into()).await?;
    Ok(())
}

async fn cancelled(url: String) -> Outcome {
    let connection = connected(&url).await?;
    let channel = connection.create_channel().await?;
    let queue = new_queue(&channel).await?;
    let mut consumer = consume(&channel, &queue).await?;
    gone(&connection.create_channel().await?, queue).await?;
    let end = time::timeout(PATIENCE, consumer.next()).await.map_err(|_| "no cancel came")?;
    assert!(end.is_none(), "expected the end, got {end:?}");
    Ok(())
}

/// A proxy that can cut its connections.
async fn cable(url: &str) -> io::Result<(String, task::JoinHandle<()>)> {
    let address = url.split(['@', '/']).nth(3).unwrap_or_default().to_owned();
    let listener = net::TcpListener::bind("127.0.0.1:0").await?;
    let through = url.replace(&address, &listener.local_addr()?.to_string());
    let carrying = task::spawn(async move {
        let (mut near, _) = listener.accept().await.expect("a client");
        let mut far = net::TcpStream::connect(address).await.expect("the broker");
        let _ = io::copy_bidirectional(&mut near, &mut far).await;
    });
    Ok((through, carrying))
}

async fn lost(url: String) -> Outcome {
    let (through, carrying) = cable(&url).await?;
    let first = connected(&through).await?;
    let channel = first.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let queue = new_queue(&channel).await?;
    let properties = BasicProperties::default().with_delivery_mode(2);
    publish(&channel, &queue, b"kept", properties).await?.await?;
    let mut consumer = consume(&channel, &queue).await?;
    assert!(!next(&mut consumer).await?.redelivered);
    carrying.abort();
    let second = connected(&url).await?;
    let channel = second.create_channel().await?;
    let mut consumer = consume(&channel, &queue).await?;
    let again = next(&mut consumer).await?;
    assert!(again.redelivered);
    again.ack(BasicAckOptions::default()).await?;
    gone(&channel, queue).await
}

async fn heartbeats(url: String) -> Outcome {
    let idle = connected(&format!("{url}?heartbeat=2")).await?;
    time::sleep(Duration::from_secs(7)).await;
    idle.create_channel().await?.close(200, "done".into()).await?;
    idle.close(200, "done".into()).await?;
    Ok(())
}

/// Runs a scenario; returns whether it passed.
async fn play<F>(name: &str, scenario: F) -> bool
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let why = match time::timeout(3 * PATIENCE, task::spawn(scenario)).await {
        Ok(Ok(Ok(()))) => {
            println!("ok {name}");
            return true;
        }
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(panicked)) => panicked.to_string(),
        Err(_) => "it does not end".to_owned(),
    };
    println!("FAILED {name}: {why}");
    false
}

#[tokio::main]
async fn main() {
    // For lapin, the path "/" means a virtual host with an empty name.
    let url = std::env::args().nth(1).expect("the broker's URL");
    let url = format!("{}/%2f", url.trim_end_matches('/'));
    let passed = [
        play("confirmed publishes come back in order", in_order(url.clone())).await,
        play("a rejected message comes again, redelivered", rejected(url.clone())).await,
        play("a prefetch holds back what is too much", prefetch(url.clone())).await,
        play("an unroutable mandatory message is returned", returned(url.clone())).await,
        play("headers of all types, every property, many frames", whole(url.clone())).await,
        play("topics route from exchange to exchange", topics(url.clone())).await,
        play("a transaction is kept or taken back", transaction(url.clone())).await,
        play("what expires is dead-lettered and says why", expired(url.clone())).await,
        play("a quorum queue gives a message up after its limit", poison(url.clone())).await,
        play("a stream is read again from where one says", stream(url.clone())).await,
        play("a mistake closes its channel only", mistake(url.clone())).await,
        play("a deleted queue ends its consumer", cancelled(url.clone())).await,
        play("what a lost connection held comes again", lost(url.clone())).await,
        play("heartbeats keep an idle connection", heartbeats(url)).await,
    ];
    std::process::exit(if passed.contains(&false) { 1 } else { 0 });
}
