/* transaction_sink: the fastest possible peer of Transactions.java, to find out how fast its client itself is.
 *
 * One thread, one epoll. It speaks as much of Pulsar's protocol as producers with transactions need, answers each
 * request immediately, and everything from one read with one write. It keeps nothing and checks nothing.
 *
 *   transaction_sink     prints the port; ends when its standard input does
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 20, FD_MAX = 1024, FIELDS = 32 };
enum {
    CONNECT = 2, CONNECTED, PRODUCER = 5, SEND, SEND_RECEIPT, CLOSE_PRODUCER = 15, SUCCESS = 13, PRODUCER_SUCCESS = 17, PING, PONG,
    PARTITIONED_METADATA = 21, LOOKUP = 23, NEW_TXN = 50, ADD_PARTITION = 52, END_TXN = 56, TC_CLIENT_CONNECT = 62
};

struct peer {
    uint8_t in[INPUT_BYTES], out[INPUT_BYTES];
    size_t in_used, out_used;
};

struct fields { /* of a command: numbers, and where texts stand */
    uint64_t value[FIELDS];
    const uint8_t *text[FIELDS];
};

static struct peer *peers[FD_MAX];
static const char coordinators[] = "persistent://pulsar/system/transaction_coordinator_assign"; /* has one partition */
static char url[64];
static uint64_t transactions, places;

static uint32_t get32(const uint8_t *at) { return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]; }

static void put32(uint8_t *at, uint32_t value) {
    for (int byte = 0; byte < 4; byte++) at[byte] = (uint8_t)(value >> (24 - 8 * byte));
}

static const uint8_t *get(const uint8_t *at, uint64_t *value) {
    *value = 0;
    for (int shift = 0;; shift += 7) {
        *value |= (uint64_t)(*at & 0x7F) << shift;
        if (!(*at++ & 0x80)) return at;
    }
}

static uint8_t *put(uint8_t *at, uint64_t value) {
    for (; value > 0x7F; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *number(uint8_t *at, int field, uint64_t value) { return put(put(at, (uint64_t)field << 3), value); }

static uint8_t *text(uint8_t *at, int field, const void *bytes, size_t size) {
    at = put(put(at, (uint64_t)field << 3 | 2), size);
    memcpy(at, bytes, size);
    return at + size;
}

static void parse(const uint8_t *at, const uint8_t *end, struct fields *found) {
    memset(found, 0, sizeof *found);
    while (at < end) {
        uint64_t key, value;
        at = get(get(at, &key), &value);
        if (key >> 3 < FIELDS) found->value[key >> 3] = value;
        if ((key & 7) == 2) {
            if (key >> 3 < FIELDS) found->text[key >> 3] = at;
            at += value;
        }
    }
}

static void say(struct peer *peer, int type, const uint8_t *fields, size_t size) {
    uint8_t *frame = peer->out + peer->out_used, *end = text(number(frame + 8, 1, (uint64_t)type), type, fields, size);
    put32(frame + 4, (uint32_t)(end - frame - 8));
    put32(frame, (uint32_t)(end - frame - 4));
    peer->out_used += (size_t)(end - frame);
}

static void answer(struct peer *peer, uint64_t type, const struct fields *asked) {
    uint8_t said[256], *at = said, id[32];
    switch (type) {
    case CONNECT:
        at = number(number(text(at, 1, "sink", 4), 2, 21), 3, 5 << 20);
        say(peer, CONNECTED, said, (size_t)(at - said));
        break;
    case PING:
        say(peer, PONG, said, 0);
        break;
    case PARTITIONED_METADATA:
        at = number(at, 1, asked->value[1] == sizeof coordinators - 1 && !memcmp(asked->text[1], coordinators, sizeof coordinators - 1));
        at = number(number(at, 2, asked->value[2]), 3, 0);
        say(peer, PARTITIONED_METADATA + 1, said, (size_t)(at - said));
        break;
    case LOOKUP:
        at = number(number(number(text(at, 1, url, strlen(url)), 3, 1), 4, asked->value[2]), 5, 1);
        say(peer, LOOKUP + 1, said, (size_t)(at - said));
        break;
    case PRODUCER:
        at = text(number(text(number(at, 1, asked->value[3]), 2, "sink-0-0", 8), 3, UINT64_MAX), 4, "", 0);
        say(peer, PRODUCER_SUCCESS, said, (size_t)(at - said));
        break;
    case CLOSE_PRODUCER:
        at = number(at, 1, asked->value[2]);
        say(peer, SUCCESS, said, (size_t)(at - said));
        break;
    case SEND:
        at = number(number(at, 1, asked->value[1]), 2, asked->value[2]);
        at = text(at, 3, id, (size_t)(number(number(id, 1, 1), 2, places++) - id));
        say(peer, SEND_RECEIPT, said, (size_t)(at - said));
        break;
    case NEW_TXN:
        at = number(number(number(at, 1, asked->value[1]), 2, ++transactions), 3, 0);
        say(peer, NEW_TXN + 1, said, (size_t)(at - said));
        break;
    case ADD_PARTITION:
    case END_TXN:
        at = number(number(number(at, 1, asked->value[1]), 2, asked->value[2]), 3, 0);
        say(peer, (int)type + 1, said, (size_t)(at - said));
        break;
    case TC_CLIENT_CONNECT:
        at = number(at, 1, asked->value[1]);
        say(peer, TC_CLIENT_CONNECT + 1, said, (size_t)(at - said));
        break;
    default:
        fprintf(stderr, "expected a command of a producer with transactions, got %d\n", (int)type);
        exit(1);
    }
}

static int take(int fd, struct peer *peer) {
    ssize_t came = read(fd, peer->in + peer->in_used, INPUT_BYTES - peer->in_used);
    if (came <= 0) return 0;
    peer->in_used += (size_t)came;
    const uint8_t *at = peer->in, *end = at + peer->in_used;
    while (end - at >= 8 && (size_t)(end - at) >= 4 + (size_t)get32(at)) {
        struct fields asked;
        const uint8_t *inside = at + 8; /* the type, then one field of that number: the command */
        uint64_t key, type, size;
        inside = get(get(get(get(inside, &key), &type), &key), &size);
        parse(inside, inside + size, &asked);
        answer(peer, type, &asked);
        at += 4 + get32(at);
    }
    peer->in_used = (size_t)(end - at);
    memmove(peer->in, at, peer->in_used);
    for (size_t sent = 0; sent < peer->out_used;) {
        ssize_t some = write(fd, peer->out + sent, peer->out_used - sent);
        if (some < 0) return 0;
        sent += (size_t)some;
    }
    peer->out_used = 0;
    return 1;
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), one = 1;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    if (bind(listener, (void *)&here, size) || listen(listener, 64) || getsockname(listener, (void *)&here, &size)) {
        perror("transaction_sink");
        return 1;
    }
    snprintf(url, sizeof url, "pulsar://127.0.0.1:%d", ntohs(here.sin_port));
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    int watched[] = {0, listener};
    for (int each = 0; each < 2; each++)
        epoll_ctl(poll, EPOLL_CTL_ADD, watched[each], &(struct epoll_event){.events = EPOLLIN, .data.fd = watched[each]});
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, -1);
        for (int each = 0; each < ready; each++) {
            int fd = events[each].data.fd;
            if (fd == 0) return 0;
            if (fd == listener) {
                int client = accept(listener, NULL, NULL);
                if (client < 0 || client >= FD_MAX) return 1;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                peers[client] = calloc(1, sizeof(struct peer));
                epoll_ctl(poll, EPOLL_CTL_ADD, client, &(struct epoll_event){.events = EPOLLIN, .data.fd = client});
            } else if (!take(fd, peers[fd])) {
                close(fd);
                free(peers[fd]);
            }
        }
    }
}
