/* Common and unusual scenarios for librabbitmq, the C client.
 * Prints one line for each: "ok name" or "FAILED name: why". */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_S 30
#define BYTES(text) amqp_cstring_bytes(text)
#define EXPECT(what) ((what) ? (void)0 : failed("line %d: expected %s", __LINE__, #what))

static char host[64];
static int port;
static jmp_buf end;
static char why[512];

static void failed(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why, sizeof why, format, arguments);
  va_end(arguments);
  longjmp(end, 1);
}

static void check(amqp_connection_state_t connection, const char *what) {
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
  if (reply.reply_type != AMQP_RESPONSE_NORMAL)
    failed("%s: reply type %d, %s", what, reply.reply_type, amqp_error_string2(reply.library_error));
}

static amqp_connection_state_t connected(int heartbeat_s) {
  amqp_connection_state_t connection = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(connection);
  if (amqp_socket_open(socket, host, port) != AMQP_STATUS_OK) failed("cannot connect");
  amqp_rpc_reply_t reply = amqp_login(connection, "/", 0, 131072, heartbeat_s,
                                      AMQP_SASL_METHOD_PLAIN, "guest", "guest");
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) failed("cannot log in");
  amqp_channel_open(connection, 1);
  check(connection, "channel.open");
  return connection;
}

static void disconnect(amqp_connection_state_t connection) {
  amqp_connection_close(connection, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(connection);
}

static amqp_bytes_t special_queue(amqp_connection_state_t connection, amqp_table_t arguments) {
  static int number;
  static char names[2][64]; /* two are in use at a time at most */
  char *name = names[number % 2];
  snprintf(name, sizeof names[0], "librabbitmq-%d-%d", getpid(), number++);
  amqp_queue_declare(connection, 1, BYTES(name), 0, 1, 0, 0, arguments);
  check(connection, "queue.declare");
  return BYTES(name);
}

static amqp_bytes_t new_queue(amqp_connection_state_t connection) {
  return special_queue(connection, amqp_empty_table);
}

static void delete_queue(amqp_connection_state_t connection, amqp_bytes_t queue) {
  amqp_queue_delete(connection, 1, queue, 0, 0);
  check(connection, "queue.delete");
}

static void publish(amqp_connection_state_t connection, amqp_bytes_t queue, amqp_bytes_t body,
                    amqp_basic_properties_t *properties) {
  int status =
      amqp_basic_publish(connection, 1, amqp_empty_bytes, queue, 0, 0, properties, body);
  if (status != AMQP_STATUS_OK) failed("publish: %s", amqp_error_string2(status));
}

static void consume(amqp_connection_state_t connection, amqp_bytes_t queue) {
  amqp_basic_consume(connection, 1, queue, BYTES("mine"), 0, 0, 0, amqp_empty_table);
  check(connection, "basic.consume");
}

static amqp_envelope_t next(amqp_connection_state_t connection) {
  struct timeval patience = {PATIENCE_S, 0};
  amqp_envelope_t envelope;
  amqp_maybe_release_buffers(connection);
  amqp_rpc_reply_t reply = amqp_consume_message(connection, &envelope, &patience, 0);
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) failed("no message came");
  return envelope;
}

/* The next method that the broker sends without being asked. */
static amqp_frame_t next_frame(amqp_connection_state_t connection) {
  struct timeval patience = {PATIENCE_S, 0};
  amqp_frame_t frame;
  if (amqp_simple_wait_frame_noblock(connection, &frame, &patience) != AMQP_STATUS_OK)
    failed("no frame came");
  return frame;
}

static int is_text(amqp_bytes_t bytes, const char *text) {
  return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

static void confirms(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t queue = new_queue(connection);
  amqp_confirm_select(connection, 1);
  check(connection, "confirm.select");
  char body[16];
  for (int n = 0; n < 200; n++) {
    snprintf(body, sizeof body, "%d", n);
    publish(connection, queue, BYTES(body), NULL);
  }
  for (uint64_t through = 0; through < 200;) {
    amqp_frame_t frame = next_frame(connection);
    EXPECT(frame.payload.method.id == AMQP_BASIC_ACK_METHOD);
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    EXPECT(ack->multiple ? ack->delivery_tag > through : ack->delivery_tag == through + 1);
    through = ack->delivery_tag;
  }
  consume(connection, queue);
  for (int n = 0; n < 200; n++) {
    amqp_envelope_t got = next(connection);
    snprintf(body, sizeof body, "%d", n);
    EXPECT(is_text(got.message.body, body));
    EXPECT(amqp_basic_ack(connection, 1, got.delivery_tag, 0) == AMQP_STATUS_OK);
    amqp_destroy_envelope(&got);
  }
  delete_queue(connection, queue);
  disconnect(connection);
}

static void rejected(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t queue = new_queue(connection);
  publish(connection, queue, BYTES("again"), NULL);
  consume(connection, queue);
  amqp_envelope_t first = next(connection);
  EXPECT(!first.redelivered);
  amqp_basic_nack(connection, 1, first.delivery_tag, 0, 1);
  amqp_envelope_t second = next(connection);
  EXPECT(second.redelivered && is_text(second.message.body, "again"));
  amqp_basic_reject(connection, 1, second.delivery_tag, 0);
  amqp_destroy_envelope(&first);
  amqp_destroy_envelope(&second);
  amqp_queue_delete_ok_t *gone = amqp_queue_delete(connection, 1, queue, 0, 0);
  EXPECT(gone && gone->message_count == 0);
  disconnect(connection);
}

static void prefetch(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t queue = new_queue(connection);
  for (int n = 0; n < 5; n++) publish(connection, queue, BYTES("x"), NULL);
  amqp_basic_qos(connection, 1, 0, 2, 0);
  check(connection, "basic.qos");
  consume(connection, queue);
  amqp_envelope_t first = next(connection), second = next(connection), third;
  struct timeval moment = {0, 300000};
  amqp_rpc_reply_t reply = amqp_consume_message(connection, &third, &moment, 0);
  EXPECT(reply.library_error == AMQP_STATUS_TIMEOUT);
  amqp_basic_ack(connection, 1, second.delivery_tag, 1);
  third = next(connection);
  amqp_destroy_envelope(&first);
  amqp_destroy_envelope(&second);
  amqp_destroy_envelope(&third);
  delete_queue(connection, queue);
  disconnect(connection);
}

static void returned(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_confirm_select(connection, 1);
  check(connection, "confirm.select");
  amqp_basic_publish(connection, 1, amqp_empty_bytes, BYTES("nobody.there"), 1, 0, NULL,
                     BYTES("back"));
  amqp_frame_t frame = next_frame(connection);
  EXPECT(frame.payload.method.id == AMQP_BASIC_RETURN_METHOD);
  amqp_basic_return_t *back = frame.payload.method.decoded;
  EXPECT(back->reply_code == 312 && is_text(back->reply_text, "NO_ROUTE"));
  amqp_message_t message;
  amqp_rpc_reply_t reply = amqp_read_message(connection, 1, &message, 0);
  EXPECT(reply.reply_type == AMQP_RESPONSE_NORMAL && is_text(message.body, "back"));
  amqp_destroy_message(&message);
  EXPECT(next_frame(connection).payload.method.id == AMQP_BASIC_ACK_METHOD);
  disconnect(connection);
}

static void whole(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t queue = new_queue(connection);
  amqp_table_entry_t headers[] = {
      {BYTES("text"), {AMQP_FIELD_KIND_UTF8, {.bytes = BYTES("green")}}},
      {BYTES("whole"), {AMQP_FIELD_KIND_I64, {.i64 = -5000000000}}},
      {BYTES("small"), {AMQP_FIELD_KIND_U8, {.u8 = 255}}},
      {BYTES("real"), {AMQP_FIELD_KIND_F64, {.f64 = 2.5}}},
      {BYTES("yes"), {AMQP_FIELD_KIND_BOOLEAN, {.boolean = 1}}},
      {BYTES("nothing"), {AMQP_FIELD_KIND_VOID, {0}}},
  };
  const int count = sizeof headers / sizeof headers[0];
  amqp_basic_properties_t sent = {
      ._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG |
                AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_PRIORITY_FLAG |
                AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_USER_ID_FLAG,
      .headers = {count, headers},
      .content_type = BYTES("text/plain"),
      .delivery_mode = 2,
      .priority = 4,
      .timestamp = 1700000000,
      .user_id = BYTES("guest"),
  };
  amqp_bytes_t body = amqp_bytes_malloc(1000003);
  for (size_t n = 0; n < body.len; n++) ((char *)body.bytes)[n] = (char)(n * 31);
  publish(connection, queue, body, &sent);
  consume(connection, queue);
  amqp_envelope_t got = next(connection);
  amqp_basic_properties_t *came = &got.message.properties;
  EXPECT(got.message.body.len == body.len);
  EXPECT(memcmp(got.message.body.bytes, body.bytes, body.len) == 0);
  EXPECT(came->_flags == sent._flags && came->timestamp == sent.timestamp);
  EXPECT(came->headers.num_entries == count);
  for (int n = 0; n < count; n++) {
    amqp_table_entry_t *entry = &came->headers.entries[n];
    EXPECT(entry->key.len == headers[n].key.len && entry->value.kind == headers[n].value.kind);
    EXPECT(memcmp(entry->key.bytes, headers[n].key.bytes, entry->key.len) == 0);
  }
  EXPECT(is_text(came->headers.entries[0].value.value.bytes, "green"));
  EXPECT(came->headers.entries[1].value.value.i64 == -5000000000);
  amqp_destroy_envelope(&got);
  amqp_bytes_free(body);
  delete_queue(connection, queue);
  disconnect(connection);
}

static void transaction(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t queue = new_queue(connection);
  amqp_tx_select(connection, 1);
  check(connection, "tx.select");
  publish(connection, queue, BYTES("taken back"), NULL);
  amqp_tx_rollback(connection, 1);
  check(connection, "tx.rollback");
  publish(connection, queue, BYTES("kept"), NULL);
  amqp_tx_commit(connection, 1);
  check(connection, "tx.commit");
  amqp_rpc_reply_t got = amqp_basic_get(connection, 1, queue, 1);
  EXPECT(got.reply.id == AMQP_BASIC_GET_OK_METHOD);
  amqp_message_t message;
  amqp_read_message(connection, 1, &message, 0);
  EXPECT(is_text(message.body, "kept"));
  amqp_destroy_message(&message);
  got = amqp_basic_get(connection, 1, queue, 1);
  EXPECT(got.reply.id == AMQP_BASIC_GET_EMPTY_METHOD);
  delete_queue(connection, queue);
  disconnect(connection);
}

static amqp_table_entry_t text_entry(const char *name, amqp_bytes_t text) {
  amqp_table_entry_t entry = {BYTES(name), {AMQP_FIELD_KIND_UTF8, {.bytes = text}}};
  return entry;
}

static amqp_table_entry_t number_entry(const char *name, int number) {
  amqp_table_entry_t entry = {BYTES(name), {AMQP_FIELD_KIND_I32, {.i32 = number}}};
  return entry;
}

/* The value of that name in the table; NULL if there is none. */
static amqp_field_value_t *found(amqp_table_t *table, const char *name) {
  for (int n = 0; n < table->num_entries; n++)
    if (is_text(table->entries[n].key, name)) return &table->entries[n].value;
  return NULL;
}

/* The queue in which a dead letter died last, and the reason. */
static amqp_table_t *death(amqp_envelope_t *letter) {
  amqp_field_value_t *deaths = found(&letter->message.properties.headers, "x-death");
  EXPECT(deaths && deaths->kind == AMQP_FIELD_KIND_ARRAY && deaths->value.array.num_entries == 1);
  EXPECT(deaths->value.array.entries[0].kind == AMQP_FIELD_KIND_TABLE);
  return &deaths->value.array.entries[0].value.table;
}

static void expect_text(amqp_table_t *table, const char *name, const char *text) {
  amqp_field_value_t *value = found(table, name);
  EXPECT(value && value->kind == AMQP_FIELD_KIND_UTF8 && is_text(value->value.bytes, text));
}

static void expired(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t dead = new_queue(connection);
  amqp_table_entry_t arguments[] = {
      number_entry("x-message-ttl", 50),    text_entry("x-dead-letter-exchange", BYTES("")),
      number_entry("x-max-length", 1000),   text_entry("x-dead-letter-routing-key", dead),
      number_entry("x-expires", 600 * 1000)};
  amqp_bytes_t queue = special_queue(connection, (amqp_table_t){5, arguments});
  publish(connection, queue, BYTES("late"), NULL);
  consume(connection, dead);
  amqp_envelope_t letter = next(connection);
  amqp_table_t *last = death(&letter);
  expect_text(last, "queue", queue.bytes);
  expect_text(last, "reason", "expired");
  expect_text(last, "exchange", "");
  amqp_field_value_t *count = found(last, "count"), *when = found(last, "time");
  EXPECT(count && count->kind == AMQP_FIELD_KIND_I64 && count->value.i64 == 1);
  EXPECT(when && when->kind == AMQP_FIELD_KIND_TIMESTAMP);
  amqp_destroy_envelope(&letter);
  delete_queue(connection, queue);
  delete_queue(connection, dead);
  disconnect(connection);
}

static void poison(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_bytes_t dead = new_queue(connection);
  amqp_table_entry_t arguments[] = {
      text_entry("x-queue-type", BYTES("quorum")), text_entry("x-dead-letter-exchange", BYTES("")),
      number_entry("x-delivery-limit", 2),         text_entry("x-dead-letter-routing-key", dead)};
  amqp_bytes_t queue = special_queue(connection, (amqp_table_t){4, arguments});
  publish(connection, queue, BYTES("poison"), NULL);
  consume(connection, queue);
  for (int n = 0; n < 3; n++) {
    amqp_envelope_t got = next(connection);
    amqp_field_value_t *count = found(&got.message.properties.headers, "x-delivery-count");
    EXPECT((count ? count->value.i64 : 0) == n);
    amqp_basic_nack(connection, 1, got.delivery_tag, 0, 1);
    amqp_destroy_envelope(&got);
  }
  amqp_connection_state_t other = connected(0);
  consume(other, dead);
  amqp_envelope_t letter = next(other);
  expect_text(death(&letter), "reason", "delivery_limit");
  amqp_destroy_envelope(&letter);
  delete_queue(other, dead);
  delete_queue(other, queue);
  disconnect(other);
  disconnect(connection);
}

static void stream(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_table_entry_t type = text_entry("x-queue-type", BYTES("stream"));
  amqp_bytes_t queue = special_queue(connection, (amqp_table_t){1, &type});
  amqp_confirm_select(connection, 1);
  check(connection, "confirm.select");
  char body[16];
  for (int n = 0; n < 10; n++) {
    snprintf(body, sizeof body, "%d", n);
    publish(connection, queue, BYTES(body), NULL);
    EXPECT(next_frame(connection).payload.method.id == AMQP_BASIC_ACK_METHOD);
  }
  amqp_table_entry_t offsets[] = {text_entry("x-stream-offset", BYTES("first")),
                                  number_entry("x-stream-offset", 4)};
  for (int turn = 0; turn < 2; turn++) {
    amqp_connection_state_t reading = connected(0);
    amqp_basic_qos(reading, 1, 0, 100, 0);
    check(reading, "basic.qos");
    amqp_basic_consume(reading, 1, queue, BYTES("mine"), 0, 0, 0,
                       (amqp_table_t){1, &offsets[turn]});
    check(reading, "basic.consume");
    for (int n = turn * 4; n < 10; n++) {
      amqp_envelope_t got = next(reading);
      snprintf(body, sizeof body, "%d", n);
      EXPECT(is_text(got.message.body, body));
      amqp_field_value_t *offset = found(&got.message.properties.headers, "x-stream-offset");
      EXPECT(offset && offset->kind == AMQP_FIELD_KIND_I64 && offset->value.i64 == n);
      amqp_basic_ack(reading, 1, got.delivery_tag, 0);
      amqp_destroy_envelope(&got);
    }
    disconnect(reading);
  }
  delete_queue(connection, queue);
  disconnect(connection);
}

static void mistake(void) {
  amqp_connection_state_t connection = connected(0);
  amqp_queue_declare(connection, 1, BYTES("never.declared"), 1, 0, 0, 0, amqp_empty_table);
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
  EXPECT(reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION);
  EXPECT(reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD);
  EXPECT(((amqp_channel_close_t *)reply.reply.decoded)->reply_code == 404);
  amqp_channel_close_ok_t answer = {0};
  amqp_send_method(connection, 1, AMQP_CHANNEL_CLOSE_OK_METHOD, &answer);
  amqp_channel_open(connection, 1);
  check(connection, "channel.open with the same number");
  disconnect(connection);
}

static void cancelled(void) {
  amqp_table_entry_t able = {BYTES("consumer_cancel_notify"),
                             {AMQP_FIELD_KIND_BOOLEAN, {.boolean = 1}}};
  amqp_table_t abilities = {1, &able};
  amqp_table_entry_t entry = {BYTES("capabilities"),
                              {AMQP_FIELD_KIND_TABLE, {.table = abilities}}};
  amqp_table_t properties = {1, &entry};
  amqp_connection_state_t connection = amqp_new_connection();
  EXPECT(amqp_socket_open(amqp_tcp_socket_new(connection), host, port) == AMQP_STATUS_OK);
  amqp_login_with_properties(connection, "/", 0, 131072, 0, &properties, AMQP_SASL_METHOD_PLAIN,
                             "guest", "guest");
  amqp_channel_open(connection, 1);
  check(connection, "channel.open");
  amqp_bytes_t queue = new_queue(connection);
  consume(connection, queue);
  amqp_connection_state_t other = connected(0);
  delete_queue(other, queue);
  disconnect(other);
  amqp_frame_t frame = next_frame(connection);
  EXPECT(frame.payload.method.id == AMQP_BASIC_CANCEL_METHOD);
  EXPECT(is_text(((amqp_basic_cancel_t *)frame.payload.method.decoded)->consumer_tag, "mine"));
  disconnect(connection);
}

static void lost(void) {
  amqp_connection_state_t first = connected(0);
  amqp_bytes_t queue = new_queue(first);
  publish(first, queue, BYTES("kept"), NULL);
  consume(first, queue);
  amqp_envelope_t got = next(first);
  EXPECT(!got.redelivered);
  amqp_destroy_envelope(&got);
  shutdown(amqp_get_sockfd(first), SHUT_RDWR);
  amqp_destroy_connection(first);
  amqp_connection_state_t second = connected(0);
  consume(second, queue);
  got = next(second);
  EXPECT(got.redelivered);
  amqp_destroy_envelope(&got);
  delete_queue(second, queue);
  disconnect(second);
}

static void heartbeats(void) {
  amqp_connection_state_t connection = connected(2);
  struct timeval while_idle = {7, 0};
  amqp_frame_t frame;
  int status = amqp_simple_wait_frame_noblock(connection, &frame, &while_idle);
  EXPECT(status == AMQP_STATUS_TIMEOUT);
  delete_queue(connection, new_queue(connection));
  disconnect(connection);
}

static int play(const char *name, void (*scenario)(void)) {
  if (setjmp(end) == 0) {
    scenario();
    printf("ok %s\n", name);
    return 0;
  }
  printf("FAILED %s: %s\n", name, why);
  return 1;
}

int main(int count, char **words) {
  if (count != 2 || sscanf(words[1], "amqp://guest:guest@%63[^:]:%d", host, &port) != 2) {
    fprintf(stderr, "expected amqp://guest:guest@HOST:PORT/\n");
    return 2;
  }
  int failures = play("confirmed publishes come back in order", confirms) +
                 play("a rejected message comes again, redelivered", rejected) +
                 play("a prefetch holds back what is too much", prefetch) +
                 play("an unroutable mandatory message is returned", returned) +
                 play("headers, properties and a body of many frames come back", whole) +
                 play("a transaction is kept or taken back", transaction) +
                 play("what expires is dead-lettered and says why", expired) +
                 play("a quorum queue gives a message up after its limit", poison) +
                 play("a stream is read again from where one says", stream) +
                 play("a mistake closes its channel only", mistake) +
                 play("a deleted queue cancels its consumer", cancelled) +
                 play("what a lost connection held comes again", lost) +
                 play("heartbeats keep an idle connection", heartbeats);
  return failures ? 1 : 0;
}
