/* amqp_load: a load generator for AMQP 0-9-1 brokers that is never the bottleneck.
 *
 * One thread, one epoll, non-blocking sockets, and frames written and read as raw bytes:
 * everything that is published is a copy of one prepared block (--mixed: assembled from a few),
 * and everything that is read is recognised by its fixed prefix. The handshake and the topology
 * calls block; they are not measured.
 *
 *   amqp_load MODE --port P [options]          prints one JSON object
 *
 *   publish   --count messages confirmed, over --connections, each with at most --window unconfirmed
 *   through   as publish, while --consumers consume and acknowledge the same queue meanwhile
 *   drain     consumes and acknowledges --count messages that are already in the queue
 *   latency   publishes --rate messages per second for --seconds and consumes them; measures the time
 *             from the instant a message was due to its arrival, and to its confirm
 *   flood     as publish, but for --seconds; counts what is confirmed by then
 *   turns     publishes for --seconds, each message when the one before is confirmed; measures the time
 *             between the two
 *   idle      opens --connections, prints that, holds them for --seconds
 *   hold      the same, and each connection publishes one message per second
 *
 * --spread: consumer i consumes the queue whose name is followed by a dash and i.
 *
 * --ready: the queue and its bindings exist already. --keys N: the routing key of message i is the
 * queue's name, a dot and i % N in six digits. --priorities N: its priority is i % N. --batch N:
 * publish N messages, wait for all their confirms, publish the next. --reject: consumers answer with
 * basic.nack without requeue. --stream: consume from the first message.
 *
 * --as-client: like client libraries, send each publish and each acknowledgement separately; in the
 * best case, everything from one wake-up is sent at once. --mixed: messages like those of
 * applications: bodies of 40 to 1,000 bytes, and each message has an id, a timestamp and three
 * headers of its own.
 *
 * --due-at MS: each message has a header x-delay that makes it due at a random time within
 * --due-within milliseconds after MS, a wall-clock time. Consumers given --due-at, whatever its
 * value, check that no message comes early instead of checking the order, and the clock of drain
 * runs from the first delivery on.
 *
 * --tls: over TLS, if compiled with WITH_TLS; the broker's certificate is not verified.
 *
 * Bodies begin with: u64 due time (ns), u32 publisher, u32 sequence. Consumers check the sequence of
 * each publisher: "disorder" counts messages that were not the successor of the one before
 * (checked with one consumer only, and meaningful only with a fresh queue), and "redelivered" counts
 * the flag of that name.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#endif

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8, FRAME_END = 0xCE };
enum { MIXED_BODY_MIN = 40, MIXED_BODY_MAX = 1000 };
enum { STAMP_BYTES = 16, INPUT_BYTES = 1 << 20, CONNECTIONS_MAX = 8192, PUBLISHERS_MAX = 8192,
       EARLY_MAX = 1 << 17 };

#define METHOD(class, method) (((uint32_t)(class) << 16) | (method))
enum method {
    CONNECTION_START = METHOD(10, 10), CONNECTION_TUNE = METHOD(10, 30), CONNECTION_OPEN_OK = METHOD(10, 41),
    CONNECTION_CLOSE = METHOD(10, 50), CHANNEL_OPEN_OK = METHOD(20, 11), CHANNEL_CLOSE = METHOD(20, 40),
    QUEUE_DECLARE_OK = METHOD(50, 11), QUEUE_DELETE_OK = METHOD(50, 41),
    BASIC_QOS_OK = METHOD(60, 11), BASIC_CONSUME_OK = METHOD(60, 21), BASIC_RETURN = METHOD(60, 50),
    BASIC_DELIVER = METHOD(60, 60), BASIC_ACK = METHOD(60, 80), BASIC_NACK = METHOD(60, 120),
    CONFIRM_SELECT_OK = METHOD(85, 11),
};

struct options {
    const char *mode, *host, *port, *vhost, *queue, *exchange;
    uint64_t count;
    int body, connections, window, consumers, prefetch, ack_every, rate, transient, keep, limit_s;
    int ready, keys, priorities, batch, reject, stream, as_client, mixed, tls, spread, due_within_ms;
    uint64_t due_at_ms;
    double seconds;
};

static struct options opt = {
    .host = "127.0.0.1", .port = "5672", .vhost = "/", .queue = "bench", .exchange = "", .count = 100000, .body = 256,
    .connections = 1, .window = 100, .consumers = 1, .prefetch = 1000, .ack_every = 1, .rate = 2000,
    .seconds = 10, .limit_s = 300,
};

struct link {
    int fd, consumer, waiting_for_room, settled;
    uint32_t publisher;            /* also the index of its sequence numbers */
    uint8_t *in;                   /* bytes read and not yet understood */
    size_t in_used;
    uint8_t *out;                  /* bytes to be written */
    size_t out_used, out_sent, out_size;
    uint64_t published, confirmed; /* publisher: delivery tags are 1 .. published */
    uint64_t delivered, acked, tag;
    uint8_t *early;                /* publisher: confirms that came before their turn, by tag */
    uint64_t early_count;
    uint64_t content_left;         /* consumer: body bytes still to come of the present message */
    size_t body_seen;
    uint8_t stamp[STAMP_BYTES];
};

static struct link links[CONNECTIONS_MAX];
static int link_count, epoll_fd;
static uint64_t total_published, total_confirmed, total_delivered, nacked, returned, disorder, redelivered;
static uint32_t last_sequence[PUBLISHERS_MAX];
static uint8_t *block;             /* one publish, ready to be copied */
static size_t block_bytes, stamp_at, key_at, priority_at, delay_at;
static uint32_t *latencies_us;     /* one for each delivery of the latency mode */
static uint64_t latency_count;
static uint32_t *confirms_us;      /* one for each confirm of the latency mode */
static uint64_t confirms_count, first_due, due_step;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("amqp_load: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t wall_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static uint16_t get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }
static uint32_t get32(const uint8_t *at) { return (uint32_t)get16(at) << 16 | get16(at + 2); }
static uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }
static uint8_t *put8(uint8_t *at, unsigned value) { *at = (uint8_t)value; return at + 1; }
static uint8_t *put16(uint8_t *at, unsigned value) { return put8(put8(at, value >> 8), value); }
static uint8_t *put32(uint8_t *at, uint32_t value) { return put16(put16(at, value >> 16), value & 0xffff); }
static uint8_t *put64(uint8_t *at, uint64_t value) { return put32(put32(at, (uint32_t)(value >> 32)), (uint32_t)value); }
static uint8_t *put_short(uint8_t *at, const char *text) {
    size_t length = strlen(text);
    if (length > 255) die("expected a name of at most 255 bytes");
    memcpy(put8(at, (unsigned)length), text, length);
    return at + 1 + length;
}

/* ---- frames -------------------------------------------------------------------------------- */

static uint8_t *frame_begin(uint8_t *at, int type, int channel) { return put32(put16(put8(at, (unsigned)type), (unsigned)channel), 0); }
static uint8_t *frame_end(uint8_t *start, uint8_t *at) {
    put32(start + 3, (uint32_t)(at - start - 7));
    return put8(at, FRAME_END);
}

static void prepare_block(void) {
    block = malloc((size_t)opt.body + 1024);
    uint8_t *at = block, *start = at;
    at = put32(frame_begin(at, FRAME_METHOD, 1), METHOD(60, 40));
    char key[256];
    snprintf(key, sizeof key, opt.keys ? "%s.000000" : "%s", opt.queue);
    at = put_short(put_short(put16(at, 0), opt.exchange), key);
    key_at = (size_t)(at - block) - 6;
    at = put8(at, 0);
    at = frame_end(start, at);
    start = at;
    /* class 60, weight 0, size, property flags: delivery-mode, perhaps priority */
    at = put64(put16(put16(frame_begin(at, FRAME_HEADER, 1), 60), 0), (uint64_t)opt.body);
    at = put16(at, (opt.priorities ? 0x1800 : 0x1000) | (opt.due_at_ms ? 0x2000 : 0));
    if (opt.due_at_ms) {
        uint8_t *table = at;
        at = put8(put_short(at + 4, "x-delay"), 'I');
        delay_at = (size_t)(at - block);
        at = put32(at, 0);
        put32(table, (uint32_t)(at - table - 4));
    }
    at = put8(at, opt.transient ? 1 : 2);
    priority_at = (size_t)(at - block);
    if (opt.priorities) at = put8(at, 0);
    at = frame_end(start, at);
    start = at;
    at = frame_begin(at, FRAME_BODY, 1);
    stamp_at = (size_t)(at - block);
    for (int i = 0; i < opt.body; i++) at[i] = (uint8_t)('a' + i % 26);
    at = frame_end(start, at + opt.body);
    block_bytes = (size_t)(at - block);
}

/* ---- the socket, plain or with TLS on top ---------------------------------------------------- */

#ifdef WITH_TLS
static SSL *tls_of[CONNECTIONS_MAX + 64]; /* by file descriptor */

static ssize_t tls_result(SSL *tls, int result) {
    if (result > 0) return result;
    switch (SSL_get_error(tls, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SSL: errno = EPROTO; return -1;
    default: return -1;
    }
}

static void begin_tls(int fd) {
    static SSL_CTX *context;
    if (!context && !(context = SSL_CTX_new(TLS_client_method()))) die("no TLS context");
    if (fd >= (int)(sizeof tls_of / sizeof *tls_of)) die("expected a smaller file descriptor than %d", fd);
    SSL *tls = SSL_new(context);
    SSL_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_fd(tls, fd);
    if (SSL_connect(tls) != 1) die("expected a TLS handshake with %s:%s", opt.host, opt.port);
    tls_of[fd] = tls;
}

static void end_tls(int fd) {
    SSL_free(tls_of[fd]);
    tls_of[fd] = NULL;
}

static ssize_t send_some(int fd, const uint8_t *data, size_t size) {
    if (!opt.tls) return write(fd, data, size);
    return tls_result(tls_of[fd], SSL_write(tls_of[fd], data, (int)size));
}

static ssize_t receive_some(int fd, uint8_t *data, size_t size) {
    if (!opt.tls) return read(fd, data, size);
    return tls_result(tls_of[fd], SSL_read(tls_of[fd], data, (int)size));
}

/* More of a TLS record has been read already, so epoll does not report it. */
static int holds_more(int fd) { return opt.tls && SSL_pending(tls_of[fd]) > 0; }
#else
static void begin_tls(int fd) { die("expected to be compiled with WITH_TLS for connection %d", fd); }
static void end_tls(int fd) { (void)fd; }
static ssize_t send_some(int fd, const uint8_t *data, size_t size) { return write(fd, data, size); }
static ssize_t receive_some(int fd, uint8_t *data, size_t size) { return read(fd, data, size); }
static int holds_more(int fd) { (void)fd; return 0; }
#endif

/* ---- blocking part: connect, handshake, topology -------------------------------------------- */

static void write_all(int fd, const uint8_t *data, size_t size) {
    for (ssize_t sent; size; data += sent, size -= (size_t)sent)
        if ((sent = send_some(fd, data, size)) < 0) die("write: %s", strerror(errno));
}

static void read_all(int fd, uint8_t *data, size_t size) {
    for (ssize_t got; size; data += got, size -= (size_t)got)
        if ((got = receive_some(fd, data, size)) <= 0) die("the broker closed the connection: %s", got ? strerror(errno) : "end of stream");
}

static void report_close(uint32_t method, const uint8_t *arguments) {
    die("%s.close: %.*s", method == CHANNEL_CLOSE ? "channel" : "connection", arguments[2], arguments + 3);
}

/* Reads frames until `wanted`; returns its arguments, valid until the next call. */
static const uint8_t *expect(int fd, uint32_t wanted) {
    static uint8_t frame[1 << 17];
    for (;;) {
        read_all(fd, frame, 7);
        uint32_t size = get32(frame + 3);
        int type = frame[0];
        if (size + 1 > sizeof frame) die("expected a frame of at most %zu bytes, got %u", sizeof frame, size);
        read_all(fd, frame, size + 1);
        if (type == FRAME_HEARTBEAT) continue;
        uint32_t method = get32(frame);
        if (method == CHANNEL_CLOSE || method == CONNECTION_CLOSE) report_close(method, frame + 4);
        if (method == wanted) return frame + 4;
        die("expected method %u.%u, got %u.%u", wanted >> 16, wanted & 0xffff, method >> 16, method & 0xffff);
    }
}

static void send_method(int fd, int channel, uint32_t method, const uint8_t *arguments, size_t size) {
    uint8_t frame[1024], *at = put32(frame_begin(frame, FRAME_METHOD, channel), method);
    memcpy(at, arguments, size);
    write_all(fd, frame, (size_t)(frame_end(frame, at + size) - frame));
}

static int connect_socket(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(opt.host, opt.port, &hints, &found)) die("cannot resolve %s", opt.host);
    int fd = socket(found->ai_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) die("connect to %s:%s: %s", opt.host, opt.port, strerror(errno));
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (opt.tls) begin_tls(fd);
    return fd;
}

static void open_connection(int fd) {
    uint8_t a[256], *at;
    write_all(fd, (const uint8_t *)"AMQP\0\0\x09\x01", 8);
    expect(fd, CONNECTION_START);
    at = put_short(put32(a, 0), "PLAIN");
    at = put32(at, 12);
    memcpy(at, "\0guest\0guest", 12);
    at = put_short(at + 12, "en_US");
    send_method(fd, 0, METHOD(10, 11), a, (size_t)(at - a));
    expect(fd, CONNECTION_TUNE);
    at = put16(put32(put16(a, 2047), 131072), 0); /* no heartbeats */
    send_method(fd, 0, METHOD(10, 31), a, (size_t)(at - a));
    at = put8(put_short(put_short(a, opt.vhost), ""), 0);
    send_method(fd, 0, METHOD(10, 40), a, (size_t)(at - a));
    expect(fd, CONNECTION_OPEN_OK);
    send_method(fd, 1, METHOD(20, 10), put_short(a, "") - 1, 1);
    expect(fd, CHANNEL_OPEN_OK);
}

static void prepare_queue(void) {
    if (opt.ready) return;
    uint8_t a[512], *at;
    int fd = connect_socket();
    open_connection(fd);
    if (!opt.keep) {
        at = put8(put_short(put16(a, 0), opt.queue), 0);
        send_method(fd, 1, METHOD(50, 40), a, (size_t)(at - a));
        expect(fd, QUEUE_DELETE_OK);
    }
    at = put32(put8(put_short(put16(a, 0), opt.queue), opt.transient ? 0 : 2), 0);
    send_method(fd, 1, METHOD(50, 10), a, (size_t)(at - a));
    expect(fd, QUEUE_DECLARE_OK);
    if (opt.tls) end_tls(fd);
    close(fd);
}

static struct link *add_link(int consumer) {
    if (link_count == CONNECTIONS_MAX) die("expected at most %d connections", CONNECTIONS_MAX);
    struct link *link = &links[link_count++];
    link->fd = connect_socket();
    link->consumer = consumer;
    link->in = malloc(INPUT_BYTES);
    link->out = malloc(link->out_size = 1 << 16);
    open_connection(link->fd);
    return link;
}

static void watch(struct link *link) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    fcntl(link->fd, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, link->fd, &event);
}

static struct link *add_publisher(uint32_t number) {
    static const uint8_t wait = 0;
    struct link *link = add_link(0);
    link->publisher = number;
    send_method(link->fd, 1, METHOD(85, 10), &wait, 1);
    expect(link->fd, CONFIRM_SELECT_OK);
    watch(link);
    return link;
}

static struct link *add_consumer(void) {
    uint8_t a[512], *at;
    struct link *link = add_link(1);
    at = put8(put16(put32(a, 0), (unsigned)opt.prefetch), 0);
    send_method(link->fd, 1, METHOD(60, 10), a, (size_t)(at - a));
    expect(link->fd, BASIC_QOS_OK);
    return link;
}

static void start_consuming(struct link *link) {
    uint8_t a[512], *at;
    char queue[256];
    snprintf(queue, sizeof queue, opt.spread ? "%s-%d" : "%s", opt.queue, (int)(link - links));
    at = put8(put_short(put_short(put16(a, 0), queue), "c"), 0);
    if (opt.stream) {
        uint8_t *table = at;
        at = put8(put_short(at + 4, "x-stream-offset"), 'S');
        at = (uint8_t *)memcpy(put32(at, 5), "first", 5) + 5;
        put32(table, (uint32_t)(at - table - 4));
    } else {
        at = put32(at, 0);
    }
    send_method(link->fd, 1, METHOD(60, 20), a, (size_t)(at - a));
    watch(link); /* consume-ok is read like anything else */
}

/* ---- the measured part ----------------------------------------------------------------------- */

static void want_write(struct link *link, int on) {
    if (link->waiting_for_room == on) return;
    struct epoll_event event = {.events = EPOLLIN | (on ? EPOLLOUT : 0u), .data.ptr = link};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, link->fd, &event);
    link->waiting_for_room = on;
}

static void flush(struct link *link) {
    while (link->out_sent < link->out_used) {
        ssize_t sent = send_some(link->fd, link->out + link->out_sent, link->out_used - link->out_sent);
        if (sent < 0 && errno == EAGAIN) return want_write(link, 1);
        if (sent < 0) die("write: %s", strerror(errno));
        link->out_sent += (size_t)sent;
    }
    link->out_sent = link->out_used = 0;
    want_write(link, 0);
}

static uint8_t *room(struct link *link, size_t size) {
    if (link->out_used + size > link->out_size) {
        while (link->out_used + size > link->out_size) link->out_size *= 2;
        link->out = realloc(link->out, link->out_size);
    }
    uint8_t *at = link->out + link->out_used;
    link->out_used += size;
    return at;
}

/* A pseudo-random number for each message: splitmix64. */
static uint64_t mixed(uint64_t number) {
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9u;
    number = (number ^ number >> 27) * 0x94d049bb133111ebu;
    return number ^ number >> 31;
}

static uint8_t *put_hex(uint8_t *at, uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = (uint8_t)"0123456789abcdef"[value >> shift & 15];
    return at;
}

/* A message as an application publishes it; no two are alike except for the exchange. */
static void publish_mixed(struct link *link, uint64_t due) {
    static uint64_t wall_s;
    if (!wall_s) wall_s = (uint64_t)time(NULL);
    uint64_t chance = mixed(total_published);
    size_t body = MIXED_BODY_MIN + chance % (MIXED_BODY_MAX - MIXED_BODY_MIN + 1);
    /* Everything but the names of exchange and key is shorter than 300 bytes. */
    uint8_t *first = room(link, body + 1024), *at = first, *start = first, *table;
    char text[256];
    at = put32(frame_begin(at, FRAME_METHOD, 1), METHOD(60, 40));
    snprintf(text, sizeof text, opt.keys ? "%s.%06u" : "%s", opt.queue, (unsigned)(chance >> 20) % (unsigned)(opt.keys ? opt.keys : 1));
    at = put8(put_short(put_short(put16(at, 0), opt.exchange), text), 0);
    start = at = frame_end(start, at);
    /* headers, delivery-mode, message-id, timestamp */
    at = put64(put16(put16(frame_begin(at, FRAME_HEADER, 1), 60), 0), body);
    table = at = put16(at, 0x2000 | 0x1000 | 0x0080 | 0x0040);
    at = put_hex(put32(put8(put_short(at + 4, "trace-id"), 'S'), 16), mixed(chance));
    snprintf(text, sizeof text, "customer-%u", (unsigned)(chance >> 40) % 5000);
    at = put32(put8(put_short(at, "customer"), 'S'), (uint32_t)strlen(text));
    memcpy(at, text, strlen(text));
    at = put32(put8(put_short(at + strlen(text), "attempt"), 'I'), (uint32_t)(chance >> 33) % 4);
    put32(table, (uint32_t)(at - table - 4));
    at = put8(at, opt.transient ? 1 : 2);
    at = put_hex(put_hex(put8(at, 32), chance), total_published);
    at = put64(at, wall_s + total_published / 1000);
    start = at = frame_end(start, at);
    at = frame_begin(at, FRAME_BODY, 1);
    memcpy(at, block + stamp_at, body);
    put32(put32(put64(at, due), link->publisher), (uint32_t)++link->published);
    at = frame_end(start, at + body);
    link->out_used -= body + 1024 - (size_t)(at - first);
    total_published++;
}

static void publish_one(struct link *link, uint64_t due) {
    if (opt.mixed) return publish_mixed(link, due);
    uint8_t *at = room(link, block_bytes);
    memcpy(at, block, block_bytes);
    if (opt.keys) {
        char digits[7];
        snprintf(digits, sizeof digits, "%06u", (unsigned)(total_published % (uint64_t)opt.keys));
        memcpy(at + key_at, digits, 6);
    }
    if (opt.due_at_ms) {
        uint64_t now = wall_ms();
        due = opt.due_at_ms + mixed(total_published) % (uint64_t)(opt.due_within_ms + 1);
        put32(at + delay_at, (uint32_t)(due > now ? due - now : 0));
    }
    if (opt.priorities) at[priority_at] = (uint8_t)(total_published % (uint64_t)opt.priorities);
    if (opt.body >= STAMP_BYTES)
        put32(put32(put64(at + stamp_at, due), link->publisher), (uint32_t)++link->published);
    else
        link->published++;
    total_published++;
}

static void publish_up_to_window(struct link *link) {
    if (opt.batch) {
        if (link->published != link->confirmed) return;
        for (int i = 0; i < opt.batch && total_published < opt.count; i++) publish_one(link, 0);
        return;
    }
    while (link->published - link->confirmed < (uint64_t)opt.window && total_published < opt.count) {
        publish_one(link, 0);
        if (!opt.as_client) continue;
        flush(link);
        if (link->out_used) return; /* no room: a client would wait here */
    }
}

static void acknowledge(struct link *link, uint64_t tag, int multiple) {
    uint32_t method = opt.reject ? METHOD(60, 120) : METHOD(60, 80);
    uint8_t *start = room(link, 21), *at = put32(frame_begin(start, FRAME_METHOD, 1), method);
    /* In basic.nack the second bit would be requeue. */
    frame_end(start, put8(put64(at, tag), (unsigned)multiple));
    link->acked = tag;
    if (opt.as_client) flush(link);
}

static void message_done(struct link *link) {
    total_delivered++;
    link->delivered++;
    if (link->body_seen >= STAMP_BYTES) {
        uint64_t due = get64(link->stamp);
        uint32_t publisher = get32(link->stamp + 8), sequence = get32(link->stamp + 12);
        if (opt.due_at_ms) {
            disorder += wall_ms() < due; /* early */
        } else if (publisher < PUBLISHERS_MAX && !opt.priorities && opt.consumers == 1) {
            disorder += sequence != last_sequence[publisher] + 1;
            last_sequence[publisher] = sequence;
        }
        if (latencies_us && due) latencies_us[latency_count++] = (uint32_t)((now_ns() - due) / 1000);
    }
    if (link->delivered % (uint64_t)opt.ack_every == 0) acknowledge(link, link->tag, opt.ack_every > 1);
}

/* In the latency mode: a message has just been confirmed. */
static void note_confirm(uint64_t tag) {
    if (confirms_us) confirms_us[confirms_count++] = (uint32_t)((now_ns() - first_due - (tag - 1) * due_step) / 1000);
}

/* How many messages this confirm confirms. Single confirms may come out of order. */
static uint64_t confirm(struct link *link, uint64_t tag, int multiple) {
    uint64_t count = 1;
    if (!multiple) note_confirm(tag);
    if (multiple) {
        count = tag - link->tag;
        for (uint64_t each = link->tag + 1; confirms_us && each <= tag; each++)
            if (!link->early_count || !link->early[each % EARLY_MAX]) note_confirm(each);
        for (uint64_t each = link->tag + 1; link->early_count && each <= tag; each++)
            if (link->early[each % EARLY_MAX]) {
                link->early[each % EARLY_MAX] = 0;
                link->early_count--;
                count--;
            }
        link->tag = tag;
    } else if (tag == link->tag + 1) {
        link->tag = tag;
    } else {
        if (tag <= link->tag || tag > link->tag + EARLY_MAX)
            die("expected a confirm of a later message than %lu, got one of %lu", (unsigned long)link->tag, (unsigned long)tag);
        if (!link->early) link->early = calloc(EARLY_MAX, 1);
        link->early_count += !link->early[tag % EARLY_MAX];
        link->early[tag % EARLY_MAX] = 1;
    }
    while (link->early_count && link->early[(link->tag + 1) % EARLY_MAX]) {
        link->early[++link->tag % EARLY_MAX] = 0;
        link->early_count--;
    }
    return count;
}

static void on_method(struct link *link, const uint8_t *at) {
    uint32_t method = get32(at);
    at += 4;
    switch (method) {
    case BASIC_DELIVER:
        at += 1 + at[0];
        link->tag = get64(at);
        redelivered += at[8];
        break;
    case BASIC_ACK:
    case BASIC_NACK: {
        uint64_t tag = get64(at);
        uint64_t count = confirm(link, tag, at[8] & 1);
        link->confirmed += count;
        total_confirmed += count;
        if (method == BASIC_NACK) nacked += count;
        break;
    }
    case BASIC_QOS_OK: link->settled = 1; break;
    case BASIC_RETURN: returned++; break;
    case CHANNEL_CLOSE:
    case CONNECTION_CLOSE: report_close(method, at);
    }
}

static void on_frame(struct link *link, int type, const uint8_t *payload, uint32_t size) {
    if (type == FRAME_METHOD) return on_method(link, payload);
    if (type == FRAME_HEADER) {
        link->content_left = get64(payload + 4);
        link->body_seen = 0;
        if (link->consumer && !link->content_left) message_done(link);
    } else if (type == FRAME_BODY && link->consumer) {
        if (link->body_seen < STAMP_BYTES) {
            size_t part = STAMP_BYTES - link->body_seen;
            memcpy(link->stamp + link->body_seen, payload, part < size ? part : size);
        }
        link->body_seen += size;
        link->content_left -= size;
        if (!link->content_left) message_done(link);
    }
}

static void receive(struct link *link) {
    ssize_t got = receive_some(link->fd, link->in + link->in_used, INPUT_BYTES - link->in_used);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the broker closed the connection: %s", got ? strerror(errno) : "end of stream");
    link->in_used += (size_t)got;
    uint8_t *at = link->in, *end = at + link->in_used;
    while (end - at >= 8) {
        uint32_t size = get32(at + 3);
        if ((size_t)size + 8 > INPUT_BYTES) die("expected a frame of at most %d bytes, got %u", INPUT_BYTES, size);
        if ((size_t)(end - at) < (size_t)size + 8) break;
        if (at[7 + size] != FRAME_END) die("expected the frame end octet");
        on_frame(link, at[0], at + 7, size);
        at += size + 8;
    }
    link->in_used = (size_t)(end - at);
    memmove(link->in, at, link->in_used);
}

/* One wake-up: read everything available, publish what the window allows, then write once per link. */
static void turn(int timeout_ms) {
    struct epoll_event events[64];
    int count = epoll_wait(epoll_fd, events, 64, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;
        if (!link) continue; /* the latency mode's timer; it only wakes us */
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) do receive(link); while (holds_more(link->fd));
        if (opt.as_client) flush(link);
        if (!link->consumer && !opt.rate && !(opt.as_client && link->out_used)) publish_up_to_window(link);
        flush(link);
    }
}

static void check_time(uint64_t began, const char *what) {
    if (now_ns() - began > (uint64_t)opt.limit_s * 1000000000u)
        die("%s: not done in %d s: published %lu, confirmed %lu, delivered %lu of %lu", what, opt.limit_s,
            (unsigned long)total_published, (unsigned long)total_confirmed, (unsigned long)total_delivered,
            (unsigned long)opt.count);
}

/* Acks what ack_every left over, then waits for a later answer: the broker has read every ack by then. */
static void settle_consumers(uint64_t began) {
    for (int i = 0; i < link_count; i++) {
        struct link *link = &links[i];
        if (!link->consumer) continue;
        if (link->tag != link->acked) acknowledge(link, link->tag, 1);
        uint8_t *start = room(link, 19), *at = put32(frame_begin(start, FRAME_METHOD, 1), METHOD(60, 10));
        frame_end(start, put8(put16(put32(at, 0), (unsigned)opt.prefetch), 0));
        flush(link);
    }
    for (int i = 0; i < link_count; i++)
        while (links[i].consumer && !links[i].settled) {
            turn(1000);
            check_time(began, "settle");
        }
}

static double seconds_since(uint64_t began) { return (double)(now_ns() - began) / 1e9; }

static void print_rate(double seconds, uint64_t count) {
    printf("{\"mode\": \"%s\", \"messages\": %lu, \"seconds\": %.4f, \"rate\": %.0f, \"nacked\": %lu, "
           "\"returned\": %lu, \"disorder\": %lu, \"redelivered\": %lu}\n",
           opt.mode, (unsigned long)count, seconds, (double)count / seconds, (unsigned long)nacked,
           (unsigned long)returned, (unsigned long)disorder, (unsigned long)redelivered);
}

static void run_publish(int with_consumers) {
    prepare_queue();
    for (int i = 0; with_consumers && i < opt.consumers; i++) start_consuming(add_consumer());
    int first = link_count;
    for (int i = 0; i < opt.connections; i++) add_publisher((uint32_t)i);
    uint64_t began = now_ns();
    for (int i = first; i < link_count; i++) {
        publish_up_to_window(&links[i]);
        flush(&links[i]);
    }
    while (total_confirmed < opt.count || (with_consumers && total_delivered < opt.count)) {
        turn(1000);
        check_time(began, opt.mode);
    }
    settle_consumers(began);
    print_rate(seconds_since(began), opt.count);
}

static void run_drain(void) {
    for (int i = 0; i < opt.consumers; i++) add_consumer();
    uint64_t began = now_ns();
    for (int i = 0; i < link_count; i++) start_consuming(&links[i]);
    while (total_delivered < opt.count) {
        int nothing_yet = opt.due_at_ms && !total_delivered;
        turn(1000);
        if (nothing_yet && total_delivered) began = now_ns();
        check_time(began, opt.mode);
    }
    settle_consumers(began);
    print_rate(seconds_since(began), opt.count);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(const uint32_t *values, uint64_t count, double part) {
    uint64_t at = (uint64_t)(part * (double)count);
    return values[at < count ? at : count - 1];
}

/* Sorts the values first. */
static void print_percentiles(const char *prefix, uint32_t *values, uint64_t count) {
    if (!count) die("%s: expected one message at least in the time", opt.mode);
    qsort(values, count, sizeof *values, by_value);
    printf(", \"%sp50_us\": %u, \"%sp95_us\": %u, \"%sp99_us\": %u, \"%sp999_us\": %u, \"%smax_us\": %u",
           prefix, percentile(values, count, .5), prefix, percentile(values, count, .95), prefix,
           percentile(values, count, .99), prefix, percentile(values, count, .999), prefix, values[count - 1]);
}

static void run_flood(void) {
    prepare_queue();
    for (int i = 0; i < opt.connections; i++) add_publisher((uint32_t)i);
    opt.count = UINT64_MAX;
    uint64_t began = now_ns();
    for (int i = 0; i < link_count; i++) {
        publish_up_to_window(&links[i]);
        flush(&links[i]);
    }
    while (seconds_since(began) < opt.seconds) turn(100);
    print_rate(seconds_since(began), total_confirmed);
}

static void run_turns(void) {
    prepare_queue();
    struct link *publisher = add_publisher(0);
    size_t most = (size_t)(opt.seconds * 100000) + 1;
    uint32_t *turns_us = malloc(most * sizeof *turns_us);
    uint64_t began = now_ns(), count = 0;
    opt.rate = 1; /* nothing is published by a wake-up */
    while (seconds_since(began) < opt.seconds && count < most) {
        uint64_t sent = now_ns();
        publish_one(publisher, 0);
        flush(publisher);
        while (total_confirmed < total_published) {
            turn(1000);
            check_time(began, opt.mode);
        }
        turns_us[count++] = (uint32_t)((now_ns() - sent) / 1000);
    }
    printf("{\"mode\": \"turns\", \"messages\": %lu, \"nacked\": %lu", (unsigned long)count, (unsigned long)nacked);
    print_percentiles("", turns_us, count);
    printf("}\n");
}

static void run_latency(void) {
    opt.count = (uint64_t)(opt.rate * opt.seconds);
    latencies_us = malloc(opt.count * 2 * sizeof *latencies_us);
    prepare_queue();
    for (int i = 0; i < opt.consumers; i++) start_consuming(add_consumer());
    confirms_us = malloc(opt.count * sizeof *confirms_us);
    struct link *publisher = add_publisher(0);
    uint64_t step = due_step = 1000000000u / (uint64_t)opt.rate, began = now_ns();
    first_due = began + 100000000u;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event);
    while (total_confirmed < opt.count || total_delivered < opt.count) {
        uint64_t due = first_due + total_published * step;
        while (total_published < opt.count && now_ns() >= due) {
            publish_one(publisher, due);
            due += step;
        }
        flush(publisher);
        if (total_published < opt.count) {
            /* Setting the timer also clears an expiry that has not been read. */
            struct itimerspec at = {.it_value = {.tv_sec = (time_t)(due / 1000000000u), .tv_nsec = (long)(due % 1000000000u)}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        } else {
            epoll_ctl(epoll_fd, EPOLL_CTL_DEL, timer, NULL);
        }
        turn(1000);
        check_time(began, opt.mode);
    }
    printf("{\"mode\": \"latency\", \"messages\": %lu, \"rate\": %d, \"nacked\": %lu", (unsigned long)latency_count,
           opt.rate, (unsigned long)nacked);
    print_percentiles("", latencies_us, latency_count);
    print_percentiles("confirm_", confirms_us, confirms_count);
    printf("}\n");
}

static void run_idle(void) {
    for (int i = 0; i < opt.connections; i++) add_publisher((uint32_t)i);
    printf("{\"mode\": \"idle\", \"connections\": %d}\n", link_count);
    fflush(stdout);
    usleep((useconds_t)(opt.seconds * 1e6));
}

static void run_hold(void) {
    prepare_queue();
    opt.count = (uint64_t)(opt.seconds * opt.connections);
    for (int i = 0; i < opt.connections; i++) add_publisher((uint32_t)i);
    printf("{\"mode\": \"hold\", \"connections\": %d}\n", link_count);
    fflush(stdout);
    uint64_t began = now_ns(), step = 1000000000u / (uint64_t)opt.connections;
    while (total_confirmed < opt.count) {
        while (total_published < opt.count && now_ns() >= began + total_published * step) {
            struct link *link = &links[total_published % (uint64_t)link_count];
            publish_one(link, 0);
            flush(link);
        }
        turn(1);
        check_time(began, "hold");
    }
    print_rate(seconds_since(began), opt.count);
}

static void usage(void) {
    die("expected: amqp_load publish|through|drain|latency|flood|turns|idle|hold [--host H] [--port P] [--queue Q] [--exchange X]\n"
        "  [--count N] [--body BYTES] [--connections C] [--window W] [--consumers C] [--prefetch P]\n"
        "  [--ack-every K] [--rate R] [--seconds S] [--limit S] [--transient] [--keep]\n"
        "  [--ready] [--keys N] [--priorities N] [--batch N] [--reject] [--stream]\n"
        "  [--as-client] [--mixed] [--tls] [--due-at MS] [--due-within MS]");
}

static void read_options(int count, char **arguments) {
    static const struct option names[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"vhost", 1, 0, 'v'}, {"queue", 1, 0, 'q'}, {"exchange", 1, 0, 'x'}, {"count", 1, 0, 'n'},
        {"body", 1, 0, 'b'}, {"connections", 1, 0, 'c'}, {"window", 1, 0, 'w'}, {"consumers", 1, 0, 'y'},
        {"prefetch", 1, 0, 'f'}, {"ack-every", 1, 0, 'a'}, {"rate", 1, 0, 'r'}, {"seconds", 1, 0, 's'},
        {"limit", 1, 0, 'l'}, {"transient", 0, 0, 't'}, {"keep", 0, 0, 'k'},
        {"ready", 0, 0, 'R'}, {"keys", 1, 0, 'K'}, {"priorities", 1, 0, 'P'}, {"batch", 1, 0, 'B'},
        {"reject", 0, 0, 'J'}, {"stream", 0, 0, 'S'},
        {"spread", 0, 0, 'D'}, {"as-client", 0, 0, 'C'}, {"mixed", 0, 0, 'M'}, {"tls", 0, 0, 'T'},
        {"due-at", 1, 0, 'A'}, {"due-within", 1, 0, 'W'}, {0, 0, 0, 0},
    };
    for (int name; (name = getopt_long(count, arguments, "", names, NULL)) != -1;) {
        switch (name) {
        case 'h': opt.host = optarg; break;
        case 'p': opt.port = optarg; break;
        case 'v': opt.vhost = optarg; break;
        case 'q': opt.queue = optarg; break;
        case 'x': opt.exchange = optarg; break;
        case 'n': opt.count = strtoull(optarg, NULL, 10); break;
        case 'b': opt.body = atoi(optarg); break;
        case 'c': opt.connections = atoi(optarg); break;
        case 'w': opt.window = atoi(optarg); break;
        case 'y': opt.consumers = atoi(optarg); break;
        case 'f': opt.prefetch = atoi(optarg); break;
        case 'a': opt.ack_every = atoi(optarg); break;
        case 'r': opt.rate = atoi(optarg); break;
        case 's': opt.seconds = atof(optarg); break;
        case 'l': opt.limit_s = atoi(optarg); break;
        case 't': opt.transient = 1; break;
        case 'k': opt.keep = 1; break;
        case 'R': opt.ready = 1; break;
        case 'K': opt.keys = atoi(optarg); break;
        case 'P': opt.priorities = atoi(optarg); break;
        case 'B': opt.batch = atoi(optarg); break;
        case 'J': opt.reject = 1; break;
        case 'S': opt.stream = 1; break;
        case 'D': opt.spread = 1; break;
        case 'C': opt.as_client = 1; break;
        case 'M': opt.mixed = 1; break;
        case 'T': opt.tls = 1; break;
        case 'A': opt.due_at_ms = strtoull(optarg, NULL, 10); break;
        case 'W': opt.due_within_ms = atoi(optarg); break;
        default: usage();
        }
    }
    if (optind != count - 1) usage();
    opt.mode = arguments[optind];
    if (opt.body < 1 || opt.body > 131064) die("expected a body of 1 to 131064 bytes, got %d", opt.body);
    if (opt.mixed && (opt.priorities || opt.due_at_ms || strlen(opt.exchange) + strlen(opt.queue) > 500)) usage();
    if (opt.ack_every < 1 || opt.window < 1 || opt.connections < 1 || opt.consumers < 1 || opt.count < 1) usage();
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    if (opt.mixed) opt.body = MIXED_BODY_MAX; /* of whose letters each body is the beginning */
    prepare_block();
    epoll_fd = epoll_create1(0);
    /* A rate of 0 means: as fast as the window allows. */
    if (!strcmp(opt.mode, "hold")) opt.rate = 1; /* nothing is published but when it is due */
    else if (strcmp(opt.mode, "latency")) opt.rate = 0;
    if (!strcmp(opt.mode, "publish")) run_publish(0);
    else if (!strcmp(opt.mode, "through")) run_publish(1);
    else if (!strcmp(opt.mode, "drain")) run_drain();
    else if (!strcmp(opt.mode, "latency")) run_latency();
    else if (!strcmp(opt.mode, "flood")) run_flood();
    else if (!strcmp(opt.mode, "turns")) run_turns();
    else if (!strcmp(opt.mode, "idle")) run_idle();
    else if (!strcmp(opt.mode, "hold")) run_hold();
    else usage();
    return 0;
}
