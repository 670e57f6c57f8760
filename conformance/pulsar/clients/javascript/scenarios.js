// Common scenarios for pulsar-flex, a client in pure JavaScript; more.js adds what it has no methods
// for. Prints one line per scenario: "ok name" or "FAILED name: why".
'use strict';

const assert = require('node:assert');
const { Producer, Consumer } = require('pulsar-flex');
const { FullProducer, FullConsumer, readingFrom, topicsOf, whole } = require('./more.js');

const server = process.argv[2].replace('pulsar://', '');
const PATIENCE_MS = 30_000;
const SILENCE_MS = 1_500;
let numbers = 0;

const fresh = () => `persistent://public/default/js-${process.pid}-${++numbers}`;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const span = (first, end) => Array.from({ length: end - first }, (_, n) => `${first + n}`);
const quiet = { logLevel: 0, logCreator: () => () => {} };

async function producing(topic, mode = Producer.ACCESS_MODES.SHARED) {
  const producer = new FullProducer({
    topic,
    discoveryServers: [server],
    producerAccessMode: mode,
    ...quiet,
  });
  await producer.create();
  return producer;
}

// A consumer and the messages it received; `answer` is called with each message.
async function consuming(topic, type, answer = ({ ack }) => ack(), options = {}) {
  const consumer = new FullConsumer({
    topic,
    discoveryServers: [server],
    subscription: 's',
    subType: type,
    consumerName: `c${++numbers}`,
    initialPosition: Consumer.INITIAL_POSITION.EARLIEST,
    receiveQueueSize: 100,
    ...quiet,
    ...options,
  });
  await consumer.subscribe();
  const got = [];
  await consumer.run({
    autoAck: false,
    onMessage: async (each) => {
      got.push({ ...each, text: Buffer.from(each.message).toString() });
      await answer(each, got.length);
    },
  });
  return { consumer, got };
}

async function until(happened, what) {
  const end = Date.now() + PATIENCE_MS;
  while (!happened()) {
    assert(Date.now() < end, `${what} did not happen`);
    await pause(20);
  }
}

const texts = (got) => got.map((each) => each.text);

async function single() {
  const topic = fresh();
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE);
  const producer = await producing(topic);
  for (const payload of span(0, 30)) {
    await producer.sendMessage({ payload, properties: { shop: 'Oslo' } });
  }
  await until(() => got.length >= 30, 'thirty messages');
  assert.deepStrictEqual(texts(got), span(0, 30));
  const properties = JSON.stringify(got[0].properties);
  assert(properties.includes('shop') && properties.includes('Oslo'), properties);
  await producer.close();
  await consumer.unsubscribe();
}

async function batches() {
  const topic = fresh();
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE);
  const producer = await producing(topic);
  const messages = span(0, 40).map((payload) => ({ payload, properties: {} }));
  await producer.sendBatch({ messages });
  await until(() => got.length >= 40, 'forty messages');
  assert.deepStrictEqual(texts(got), span(0, 40));
  await producer.close();
  await consumer.unsubscribe();
}

async function shared() {
  const topic = fresh();
  const readers = [];
  for (let n = 0; n < 2; n++) {
    readers.push(await consuming(topic, Consumer.SUB_TYPES.SHARED));
  }
  const producer = await producing(topic);
  for (const payload of span(0, 60)) {
    await producer.sendMessage({ payload });
  }
  const all = () => readers.flatMap(({ got }) => texts(got));
  await until(() => all().length >= 60, 'sixty messages');
  assert.deepStrictEqual(all().sort(), span(0, 60).sort());
  assert(readers.every(({ got }) => got.length > 0), 'both have work');
  await producer.close();
}

// A key's messages are received in order, whoever comes and goes; and by one consumer as long as nobody does.
async function keyShared() {
  const topic = fresh();
  const seen = new Map();
  const owners = new Map();
  const join = async () => {
    const name = `k${++numbers}`;
    const take = ({ ack, message, metadata }) => {
      const key = metadata.partitionKey;
      seen.set(key, [...(seen.get(key) ?? []), Number(Buffer.from(message).toString())]);
      owners.set(key, (owners.get(key) ?? new Set()).add(name));
      return ack();
    };
    const options = { consumerName: name, receiveQueueSize: 10 };
    return (await consuming(topic, Consumer.SUB_TYPES.KEY_SHARED, take, options)).consumer;
  };
  const count = () => [...seen.values()].reduce((sum, each) => sum + each.length, 0);
  const consumers = [await join(), await join()];
  const producer = await producing(topic);
  const publish = async (first, end) => {
    for (let n = first; n < end; n++) {
      await producer.send(`${n}`, (metadata) => metadata.setPartitionKey(`key ${n % 13}`));
    }
  };
  await publish(0, 130);
  await until(() => count() >= 130, 'the first messages');
  assert([...owners.values()].every((each) => each.size === 1), 'a key is at one consumer');
  assert.strictEqual(new Set([...owners.values()].flatMap((each) => [...each])).size, 2);
  await publish(130, 200);
  consumers.push(await join());
  await publish(200, 270);
  await consumers.shift().unsubscribe();
  await publish(270, 390);
  await until(() => count() >= 390, 'all messages');
  await pause(SILENCE_MS);
  for (let key = 0; key < 13; key++) {
    const expected = Array.from({ length: 30 }, (_, n) => key + 13 * n);
    assert.deepStrictEqual(seen.get(`key ${key}`), expected);
  }
  await producer.close();
  await Promise.all(consumers.map((each) => each.unsubscribe()));
}

async function chunks() {
  const topic = fresh();
  const got = [];
  const take = whole((message) => got.push(message));
  const { consumer } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE, (each) => {
    take(each.message, each.metadata);
    return each.ack();
  });
  const producer = await producing(topic);
  const large = Buffer.alloc(1_000_000, 'chunks of a message ');
  await producer.sendChunks(large, 300_000);
  await producer.send('small');
  await until(() => got.length >= 2, 'both messages');
  assert(large.equals(got[0]), 'the bytes of the large one');
  assert.strictEqual(Buffer.from(got[1]).toString(), 'small');
  await producer.close();
  await consumer.unsubscribe();
}

async function partOfABatch() {
  const topic = fresh();
  const producer = await producing(topic);
  const first = await consuming(topic, Consumer.SUB_TYPES.SHARED, () => undefined);
  await producer.sendBatch({ messages: span(0, 10).map((payload) => ({ payload })) });
  await until(() => first.got.length >= 10, 'ten messages');
  const odd = [1, 3, 5, 7, 9];
  await first.consumer.acknowledgePart(first.got[0].command.messageId, odd);
  await first.consumer.unsubscribe();
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.SHARED, () => undefined);
  await until(() => got.length >= 10, 'the batch again');
  // The batch is delivered whole; which of its messages are left is stated beside it.
  assert.deepStrictEqual(texts(got), span(0, 10));
  const left = got[0].command.ackSetList[0];
  assert.deepStrictEqual(
    span(0, 10).filter((_, index) => (left >> index) & 1),
    odd.map(String)
  );
  await producer.close();
  await consumer.unsubscribe();
}

async function seeking() {
  const topic = fresh();
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE);
  const producer = await producing(topic);
  const ids = [];
  for (const payload of span(0, 5)) {
    ids.push(await producer.send(payload));
  }
  await until(() => got.length >= 5, 'five messages');
  await pause(10);
  const between = Date.now();
  await pause(10);
  for (const payload of span(5, 10)) {
    ids.push(await producer.send(payload));
  }
  await until(() => got.length >= 10, 'ten messages');
  await consumer.seekTo(ids[3]);
  await until(() => got.length >= 17, 'the rest from the fourth on');
  assert.deepStrictEqual(texts(got).slice(10), span(3, 10));
  await consumer.seekToTime(between);
  await until(() => got.length >= 22, 'what was sent later');
  await pause(SILENCE_MS);
  assert.deepStrictEqual(texts(got).slice(17), span(5, 10));
  await producer.close();
  await consumer.unsubscribe();
}

async function reading() {
  const topic = fresh();
  const producer = await producing(topic);
  const ids = [];
  for (const payload of span(0, 10)) {
    ids.push(await producer.send(payload));
  }
  const subscription = `reader-${process.pid}-${++numbers}`;
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE, undefined, {
    subscription,
    fill: readingFrom(ids[6]),
  });
  await producer.send('new');
  await until(() => got.some((each) => each.text === 'new'), 'the new message');
  assert.deepStrictEqual(texts(got), [...span(6, 10), 'new']);
  await producer.close();
  await consumer.unsubscribe();
}

async function patterns() {
  const prefix = fresh();
  const pattern = new RegExp(`^${prefix}-.*$`);
  const first = await producing(`${prefix}-a`);
  const other = await producing(fresh());
  await first.send('a');
  const readers = new Map();
  const discover = async () => {
    for (const topic of await topicsOf(server, 'public/default', pattern)) {
      if (!readers.has(topic)) {
        readers.set(topic, await consuming(topic, Consumer.SUB_TYPES.SHARED));
      }
    }
  };
  const all = () => [...readers.values()].flatMap(({ got }) => texts(got)).sort();
  await discover();
  await until(() => all().length >= 1, 'the message of the topic that was there');
  const second = await producing(`${prefix}-b`);
  await second.send('b');
  await discover();
  await until(() => all().length >= 2, 'the message of the topic that came');
  assert.deepStrictEqual(all(), ['a', 'b']);
  assert.deepStrictEqual([...readers.keys()].sort(), [`${prefix}-a`, `${prefix}-b`]);
  await Promise.all([first, second, other].map((each) => each.close()));
  await Promise.all([...readers.values()].map(({ consumer }) => consumer.unsubscribe()));
}

async function deadLetters() {
  const topic = fresh();
  const graves = await producing(`${topic}-s-DLQ`);
  const dead = await consuming(`${topic}-s-DLQ`, Consumer.SUB_TYPES.SHARED);
  const counts = [];
  const bury = async ({ ack, message, redeliveryCount }) => {
    counts.push(redeliveryCount);
    if (redeliveryCount < 2) {
      return ack({ type: Consumer.ACK_TYPES.NEGATIVE });
    }
    await graves.send(Buffer.from(message));
    return ack();
  };
  const { consumer } = await consuming(topic, Consumer.SUB_TYPES.SHARED, bury);
  const producer = await producing(topic);
  await producer.send('poison');
  await until(() => dead.got.length >= 1, 'the dead letter');
  await pause(SILENCE_MS);
  assert.deepStrictEqual(texts(dead.got), ['poison']);
  assert.deepStrictEqual(counts, [0, 1, 2]);
  await Promise.all([producer, graves].map((each) => each.close()));
  await Promise.all([consumer, dead.consumer].map((each) => each.unsubscribe()));
}

async function delayed() {
  const topic = fresh();
  const times = [];
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.SHARED, ({ ack }) => {
    times.push(Date.now());
    return ack();
  });
  const producer = await producing(topic);
  const due = Date.now() + 4_000;
  await producer.send('late', (metadata) => metadata.setDeliverAtTime(due));
  await producer.send('now');
  await until(() => got.length >= 2, 'both messages');
  assert.deepStrictEqual(texts(got), ['now', 'late']);
  assert(times[1] >= due, `${due - times[1]} ms early`);
  await producer.close();
  await consumer.unsubscribe();
}

async function failover() {
  const topic = fresh();
  const one = await consuming(topic, Consumer.SUB_TYPES.FAILOVER, undefined, {
    consumerName: 'a',
  });
  const producer = await producing(topic);
  for (const payload of span(0, 10)) {
    await producer.sendMessage({ payload });
  }
  await until(() => one.got.length >= 10, 'ten messages');
  const two = await consuming(topic, Consumer.SUB_TYPES.FAILOVER, undefined, {
    consumerName: 'b',
  });
  for (const payload of span(10, 20)) {
    await producer.sendMessage({ payload });
  }
  const all = () => [...texts(one.got), ...texts(two.got)];
  await until(() => all().length >= 20, 'twenty messages');
  assert.deepStrictEqual(all().sort(), span(0, 20).sort());
  await producer.close();
}

async function cumulative() {
  const topic = fresh();
  const { consumer, got } = await consuming(topic, Consumer.SUB_TYPES.EXCLUSIVE, ({ ack }, count) =>
    count === 10 ? ack({ type: Consumer.ACK_TYPES.CUMULATIVE }) : undefined
  );
  const producer = await producing(topic);
  for (const payload of span(0, 10)) {
    await producer.sendMessage({ payload });
  }
  await until(() => got.length >= 10, 'ten messages');
  await pause(SILENCE_MS);
  consumer._client.getCnx().close(); // it reconnects by itself
  await producer.sendMessage({ payload: 'new' });
  await until(() => got.length >= 11, 'the new message');
  assert.deepStrictEqual(texts(got), [...span(0, 10), 'new']);
  await producer.close();
}

async function negative() {
  const topic = fresh();
  const { got } = await consuming(topic, Consumer.SUB_TYPES.SHARED, ({ ack }, count) =>
    ack(count < 3 ? { type: Consumer.ACK_TYPES.NEGATIVE } : undefined)
  );
  const producer = await producing(topic);
  await producer.sendMessage({ payload: 'again' });
  await until(() => got.length >= 3, 'three deliveries');
  assert.deepStrictEqual(
    got.map((each) => each.redeliveryCount),
    [0, 1, 2]
  );
  await pause(SILENCE_MS);
  assert.strictEqual(got.length, 3);
  await producer.close();
}

async function alone() {
  const topic = fresh();
  const producer = await producing(topic, Producer.ACCESS_MODES.EXCLUSIVE);
  await assert.rejects(async () => producing(topic, Producer.ACCESS_MODES.EXCLUSIVE));
  await producer.sendMessage({ payload: 'mine' });
  await producer.close();
}

const all = {
  'single messages': single,
  batches,
  shared,
  'key shared under joins and leaves': keyShared,
  failover,
  chunks,
  'a batch acknowledged in part': partOfABatch,
  seeking,
  reading,
  patterns,
  'dead letters': deadLetters,
  'delayed delivery': delayed,
  'cumulative acknowledgement': cumulative,
  'negative acknowledgement': negative,
  'a producer alone': alone,
};

(async () => {
  let failed = false;
  const chosen = process.argv.slice(3);
  for (const [name, run] of Object.entries(all)) {
    if (chosen.length > 0 && !chosen.includes(name)) {
      continue;
    }
    try {
      await run();
      console.log(`ok ${name}`);
    } catch (error) {
      failed = true;
      console.log(`FAILED ${name}: ${error && error.message ? error.message : error}`);
    }
  }
  process.exit(failed ? 1 : 0);
})();
