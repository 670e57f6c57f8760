// Everyday scenarios for pulsar-flex, a client in JavaScript alone, as far as it goes: no seeking, no
// keys, no delays. One line per scenario: "ok name" or "FAILED name: why".
'use strict';

const assert = require('node:assert');
const { Producer, Consumer } = require('pulsar-flex');

const server = process.argv[2].replace('pulsar://', '');
const PATIENCE_MS = 15_000;
const SILENCE_MS = 1_500;
let numbers = 0;

const fresh = () => `persistent://public/default/js-${process.pid}-${++numbers}`;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const span = (first, end) => Array.from({ length: end - first }, (_, n) => `${first + n}`);
const quiet = { logLevel: 0, logCreator: () => () => {} };

async function producing(topic, mode = Producer.ACCESS_MODES.SHARED) {
  const producer = new Producer({
    topic,
    discoveryServers: [server],
    producerAccessMode: mode,
    ...quiet,
  });
  await producer.create();
  return producer;
}

// A consumer and what it gets; `answer` is called with each message.
async function consuming(topic, type, answer = ({ ack }) => ack(), name = `c${++numbers}`) {
  const consumer = new Consumer({
    topic,
    discoveryServers: [server],
    subscription: 's',
    subType: type,
    consumerName: name,
    initialPosition: Consumer.INITIAL_POSITION.EARLIEST,
    receiveQueueSize: 100,
    ...quiet,
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

async function keyShared() {
  const topic = fresh();
  const readers = [];
  for (let n = 0; n < 2; n++) {
    readers.push(await consuming(topic, Consumer.SUB_TYPES.KEY_SHARED));
  }
  const producer = await producing(topic);
  for (const payload of span(0, 30)) {
    await producer.sendMessage({ payload });
  }
  const all = () => readers.flatMap(({ got }) => texts(got));
  await until(() => all().length >= 30, 'thirty messages');
  await pause(SILENCE_MS);
  assert.deepStrictEqual(all().sort(), span(0, 30).sort());
  await producer.close();
}

async function failover() {
  const topic = fresh();
  const one = await consuming(topic, Consumer.SUB_TYPES.FAILOVER, undefined, 'a');
  const producer = await producing(topic);
  for (const payload of span(0, 10)) {
    await producer.sendMessage({ payload });
  }
  await until(() => one.got.length >= 10, 'ten messages');
  const two = await consuming(topic, Consumer.SUB_TYPES.FAILOVER, undefined, 'b');
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
  consumer._client.getCnx().close(); // it comes back by itself
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
  'key shared': keyShared,
  failover,
  'cumulative acknowledgement': cumulative,
  'negative acknowledgement': negative,
  'a producer alone': alone,
};

(async () => {
  let failed = false;
  for (const [name, run] of Object.entries(all)) {
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
