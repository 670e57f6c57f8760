// Features that pulsar-flex has frames but no methods for: keys, delays, chunks, acknowledging part of a
// batch, seeking, readers, the names of topics. They all use pulsar-flex's own connection.
'use strict';

const { Producer, Consumer } = require('pulsar-flex');
const commands = require('pulsar-flex/src/commands');
const proto = require('pulsar-flex/src/commands/protocol/pulsar/pulsar_pb');
const Client = require('pulsar-flex/src/client');
const { RequestIdResponseMediator } = require('pulsar-flex/src/responseMediators');

const Type = proto.BaseCommand.Type;

// The fields of a subscription that pulsar-flex leaves out, by the name of the consumer.
const wanted = new Map();
const plain = commands.subscribe;
commands.subscribe = (options) => {
  const command = plain(options);
  const subscribe = command.getSubscribe().setInitialposition(options.initialPosition);
  (wanted.get(options.consumerName) ?? (() => {}))(subscribe);
  return command;
};

function place({ ledgerid, entryid }) {
  return new proto.MessageIdData().setLedgerid(ledgerid).setEntryid(entryid);
}

class FullProducer extends Producer {
  // Sends a message with the metadata that `fill` sets; returns the id in the receipt.
  async send(payload, fill = () => {}) {
    const sequenceId = ++this._sequenceId;
    const metadata = commands.messageMetadata({ producerName: this._producerName, sequenceId });
    fill(metadata);
    const { command } = await this._client.getCnx().sendPayloadCommandRequest(
      {
        metadataCommand: metadata,
        command: commands.sendMessages({ producerId: this._producerId, sequenceId }),
        payload,
      },
      this._sendResponseMediator
    );
    if (command.error) {
      throw new Error(`not sent: ${command.error}`);
    }
    return command.messageId;
  }

  // Sends one message in chunks of that many bytes, which have the same sequence id.
  async sendChunks(payload, size) {
    const count = Math.ceil(payload.length / size);
    const sequenceId = this._sequenceId + 1;
    for (let chunk = 0; chunk < count; chunk++) {
      this._sequenceId = sequenceId - 1;
      await this.send(payload.subarray(chunk * size, (chunk + 1) * size), (metadata) =>
        metadata
          .setUuid(`${this._producerName}-${sequenceId}`)
          .setNumChunksFromMsg(count)
          .setTotalChunkMsgSize(payload.length)
          .setChunkId(chunk)
      );
    }
  }
}

class FullConsumer extends Consumer {
  constructor({ fill = () => {}, ...options }) {
    super({ reconnectInterval: 200, ...options });
    wanted.set(options.consumerName, fill);
  }

  // The broker closes the consumer to seek, and pulsar-flex resubscribes by itself: the answer may
  // be lost on the way.
  async seek(fill) {
    const requestId = this._requestId++;
    const seek = new proto.CommandSeek().setConsumerId(this._consumerId).setRequestId(requestId);
    fill(seek);
    const command = new proto.BaseCommand().setType(Type.SEEK).setSeek(seek);
    const cnx = this._client.getCnx();
    await cnx.sendSimpleCommandRequest({ command }, this._requestIdMediator).catch(() => {});
  }

  seekTo(id) {
    return this.seek((command) => command.setMessageId(place(id)));
  }

  seekToTime(milliseconds) {
    return this.seek((command) => command.setMessagePublishTime(milliseconds));
  }

  // Acknowledges the messages of a batch that are not in `left`; works for batches of up to 32.
  async acknowledgePart(id, left) {
    const bits = left.reduce((all, index) => all + 2 ** index, 0);
    const requestId = this._requestId++;
    const ack = new proto.CommandAck()
      .setConsumerId(this._consumerId)
      .setRequestId(requestId)
      .setAckType(Consumer.ACK_TYPES.INDIVIDUAL)
      .setMessageIdList([place(id).setAckSetList([bits])]);
    const command = new proto.BaseCommand().setType(Type.ACK).setAck(ack);
    const answer = await this._client
      .getCnx()
      .sendSimpleCommandRequest({ command }, this._requestIdMediator);
    if (answer.command.error) {
      throw new Error(`not acknowledged: ${answer.command.message}`);
    }
  }
}

// The fields that make a subscription a reader that begins after a message.
function readingFrom(id) {
  return (subscribe) => subscribe.setDurable(false).setStartMessageId(place(id));
}

// Assembles chunks as they arrive; complete messages are passed on.
function whole(take) {
  const begun = new Map();
  return (message, { uuid, chunkId, numChunksFromMsg }) => {
    if (!uuid) {
      return take(message);
    }
    const parts = begun.get(uuid) ?? [];
    begun.set(uuid, parts);
    parts[chunkId] = Buffer.from(message);
    if (parts.filter(Boolean).length === numChunksFromMsg) {
      begun.delete(uuid);
      take(Buffer.concat(parts));
    }
    return undefined;
  };
}

// The names of the topics in a namespace that match the pattern.
async function topicsOf(server, namespace, pattern) {
  const mute = () => {};
  const logger = { trace: mute, debug: mute, info: mute, warn: mute, error: mute };
  const client = new Client({ discoveryServers: [server], logger });
  const answers = new RequestIdResponseMediator({
    client,
    commands: ['gettopicsofnamespaceresponse', 'error'],
  });
  await client.connect({ topic: `persistent://${namespace}/any` });
  const asked = new proto.CommandGetTopicsOfNamespace()
    .setRequestId(1)
    .setNamespace(namespace)
    .setMode(proto.CommandGetTopicsOfNamespace.Mode.PERSISTENT);
  const command = new proto.BaseCommand()
    .setType(Type.GET_TOPICS_OF_NAMESPACE)
    .setGettopicsofnamespace(asked);
  const answer = await client.getCnx().sendSimpleCommandRequest({ command }, answers);
  client.getCnx().close();
  return answer.command.topicsList.filter((topic) => pattern.test(topic));
}

module.exports = { FullProducer, FullConsumer, proto, readingFrom, topicsOf, whole };
