// Common and unusual scenarios for amqplib. Prints one line per scenario: "ok name" or "FAILED name: why".
"use strict";
const assert = require("node:assert/strict");
const amqp = require("amqplib");

const url = process.argv[2];
const prefix = `amqplib-${process.pid}-`;
let numbers = 0;
const fresh = () => `${prefix}${(numbers += 1)}`;

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come`)), 30_000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Consumes `count` messages and passes each to `answer`.
function take(channel, queue, count, answer = (message) => channel.ack(message), options = {}) {
  const got = [];
  const all = new Promise((resolve, reject) => {
    channel
      .consume(queue, (message) => {
        if (message === null) return; // the queue was deleted, and its consumer was notified
        got.push(message);
        answer(message);
        if (got.length === count) resolve(got);
      }, options)
      .catch(reject);
  });
  return within(all, `${count} messages`);
}

const scenarios = {
  async "confirmed publishes come back in order"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(fresh(), { durable: true });
    for (let n = 0; n < 200; n += 1) {
      channel.sendToQueue(queue, Buffer.from(String(n)), { persistent: true });
    }
    await within(channel.waitForConfirms(), "confirms");
    const got = await take(channel, queue, 200);
    assert.deepEqual(got.map((each) => Number(each.content)), [...Array(200).keys()]);
    await channel.deleteQueue(queue);
  },

  async "a rejected message comes again, redelivered"(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(fresh());
    channel.sendToQueue(queue, Buffer.from("again"));
    let first = true;
    const got = await take(channel, queue, 2, (message) => {
      if (first) channel.nack(message, false, true);
      else channel.ack(message);
      first = false;
    });
    assert.deepEqual(got.map((each) => each.fields.redelivered), [false, true]);
    await channel.deleteQueue(queue);
  },

  async "a prefetch holds back what is too much"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(fresh());
    for (let n = 0; n < 5; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)));
    await channel.waitForConfirms();
    await channel.prefetch(2);
    const held = await take(channel, queue, 2, () => {});
    assert.equal((await channel.checkQueue(queue)).messageCount, 3);
    held.forEach((message) => channel.ack(message));
    await channel.deleteQueue(queue);
  },

  async "an unroutable mandatory message is returned"(connection) {
    const channel = await connection.createConfirmChannel();
    const returned = new Promise((resolve) => channel.on("return", resolve));
    channel.publish("", fresh(), Buffer.from("back"), { mandatory: true });
    const message = await within(returned, "the return");
    assert.equal(message.fields.replyCode, 312);
    assert.equal(message.content.toString(), "back");
    await channel.waitForConfirms();
  },

  async "headers of all types and every property come back"(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(fresh());
    const headers = {
      text: "grün", yes: true, no: false, nothing: null, small: 1, negative: -70000,
      large: 2 ** 40, real: 1.5, list: [1, "two", [3]], table: { deep: { deeper: "x" } },
    };
    const properties = {
      headers, contentType: "text/plain", contentEncoding: "utf-8", priority: 4, deliveryMode: 2,
      correlationId: "c", replyTo: "r", expiration: "60000", messageId: "m", timestamp: 1700000000,
      type: "t", userId: "guest", appId: "a",
    };
    channel.sendToQueue(queue, Buffer.from(""), properties);
    const [message] = await take(channel, queue, 1);
    for (const [name, value] of Object.entries(properties)) {
      assert.deepEqual(message.properties[name], value, name);
    }
    assert.equal(message.content.length, 0);
    await channel.deleteQueue(queue);
  },

  async "a body of many frames comes back whole"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(fresh());
    const body = Buffer.alloc(1_000_003, "0123456789");
    channel.sendToQueue(queue, body);
    await channel.waitForConfirms();
    const message = await channel.get(queue, { noAck: true });
    assert.ok(message && message.content.equals(body));
    assert.equal(await channel.get(queue), false);
    await channel.deleteQueue(queue);
  },

  async "topics and headers exchanges route"(connection) {
    const channel = await connection.createConfirmChannel();
    const topic = fresh();
    const headers = fresh();
    const { queue } = await channel.assertQueue(fresh());
    await channel.assertExchange(topic, "topic", { autoDelete: true });
    await channel.assertExchange(headers, "headers", { autoDelete: true });
    await channel.bindQueue(queue, topic, "a.*.c");
    await channel.bindQueue(queue, headers, "", { "x-match": "all", h: 1 });
    channel.publish(topic, "a.b.c", Buffer.from("1"));
    channel.publish(topic, "a.b", Buffer.from("lost"));
    channel.publish(headers, "", Buffer.from("2"), { headers: { h: 1 } });
    channel.publish(headers, "", Buffer.from("lost"), { headers: { h: 2 } });
    await channel.waitForConfirms();
    assert.equal((await channel.checkQueue(queue)).messageCount, 2);
    await channel.deleteQueue(queue);
  },

  async "what expires is dead-lettered and says why"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue: dead } = await channel.assertQueue(fresh());
    const { queue } = await channel.assertQueue(fresh(), {
      messageTtl: 50, deadLetterExchange: "", deadLetterRoutingKey: dead, maxLength: 1000,
      expires: 600_000,
    });
    channel.sendToQueue(queue, Buffer.from("late"), { headers: { kept: 1 } });
    const [message] = await take(channel, dead, 1);
    const [death] = message.properties.headers["x-death"];
    assert.equal(message.properties.headers.kept, 1);
    assert.deepEqual(
      [death.queue, death.reason, death.count, death.exchange, death["routing-keys"]],
      [queue, "expired", 1, "", [queue]],
    );
    assert.equal(death.time["!"], "timestamp");
    await channel.deleteQueue(queue);
    await channel.deleteQueue(dead);
  },

  async "a quorum queue gives a message up after its limit"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue: dead } = await channel.assertQueue(fresh());
    const { queue } = await channel.assertQueue(fresh(), {
      durable: true,
      arguments: {
        "x-queue-type": "quorum", "x-delivery-limit": 2, "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
      },
    });
    channel.sendToQueue(queue, Buffer.from("poison"));
    const counts = [];
    await channel.consume(queue, (message) => {
      if (message === null) return;
      counts.push((message.properties.headers || {})["x-delivery-count"] || 0);
      channel.nack(message, false, true);
    });
    const [message] = await take(channel, dead, 1);
    assert.deepEqual(counts, [0, 1, 2]);
    assert.equal(message.properties.headers["x-death"][0].reason, "delivery_limit");
    await channel.deleteQueue(queue);
    await channel.deleteQueue(dead);
  },

  async "a stream is read again from where one says"(connection) {
    const channel = await connection.createConfirmChannel();
    const stream = { durable: true, arguments: { "x-queue-type": "stream" } };
    const { queue } = await channel.assertQueue(fresh(), stream);
    for (let n = 0; n < 10; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)));
    await channel.waitForConfirms();
    for (const [offset, first] of [["first", 0], [4, 4]]) {
      const reading = await connection.createChannel();
      await reading.prefetch(100);
      const from = { arguments: { "x-stream-offset": offset } };
      const acked = (message) => reading.ack(message);
      const got = await take(reading, queue, 10 - first, acked, from);
      assert.deepEqual(got.map((each) => Number(each.content)), [...Array(10).keys()].slice(first));
      assert.equal(got[0].properties.headers["x-stream-offset"], first);
      await reading.close();
    }
    await channel.deleteQueue(queue);
  },

  async "a mistake closes its channel only"(connection) {
    const channel = await connection.createChannel();
    const failed = new Promise((resolve) => channel.on("error", resolve));
    await assert.rejects(channel.checkQueue(fresh()), /404 \(NOT-FOUND\)/);
    assert.equal((await within(failed, "the error")).code, 404);
    await (await connection.createChannel()).close();
  },

  async "a deleted queue cancels its consumer"(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(fresh());
    let consuming;
    const cancelled = new Promise((resolve) => {
      consuming = channel.consume(queue, (message) => message === null && resolve());
    });
    await consuming;
    await channel.deleteQueue(queue);
    await within(cancelled, "the cancel");
  },

  async "what a lost connection held comes again on a new one"() {
    const lost = await amqp.connect(url);
    lost.on("error", () => {});
    const channel = await lost.createConfirmChannel();
    channel.on("error", () => {});
    const { queue } = await channel.assertQueue(fresh(), { durable: true });
    channel.sendToQueue(queue, Buffer.from("kept"), { persistent: true });
    await channel.waitForConfirms();
    await take(channel, queue, 1, () => {});
    lost.connection.stream.destroy();
    const other = await amqp.connect(url);
    const again = await other.createChannel();
    const [message] = await take(again, queue, 1);
    assert.equal(message.fields.redelivered, true);
    await again.deleteQueue(queue);
    await other.close();
  },

  async "heartbeats keep an idle connection"() {
    const idle = await amqp.connect(`${url}?heartbeat=2`);
    await new Promise((resolve) => setTimeout(resolve, 7000));
    await (await idle.createChannel()).close();
    await idle.close();
  },
};

async function main() {
  let failures = 0;
  for (const [name, scenario] of Object.entries(scenarios)) {
    const connection = await amqp.connect(url);
    connection.on("error", () => {});
    try {
      await within(scenario(connection), "the end");
      console.log(`ok ${name}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED ${name}: ${error.stack}`);
    }
    await connection.close().catch(() => {});
  }
  return failures;
}

main().then((failures) => process.exit(failures ? 1 : 0));
