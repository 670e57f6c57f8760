/* amqp_sink: the fastest possible peer of amqp_load, to find out how fast amqp_load itself is.
 *
 * One thread, one epoll. It answers the handshake, discards publishes and confirms them with one
 * cumulative ack per read, and sends a consumer prepared deliveries as fast as it can read them.
 * It keeps nothing and checks nothing.
 *
 *   amqp_sink [PORT]     prints the port; ends when its standard input does
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_BYTES = 1 << 20, BODY_BYTES = 256, DELIVERIES_AHEAD = 1000, FD_MAX = 8192 };

struct peer {
    int greeted, consuming;
    uint8_t in[INPUT_BYTES];
    size_t in_used;
    uint64_t published, confirmed, delivered, acked;
};

static struct peer *peers[FD_MAX];

static uint32_t get32(const uint8_t *at) { return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]; }
static uint64_t get64(const uint8_t *at) { return (uint64_t)get32(at) << 32 | get32(at + 4); }
static uint8_t *put(uint8_t *at, uint64_t value, int bytes) {
    while (bytes--) *at++ = (uint8_t)(value >> (8 * bytes));
    return at;
}

static void write_all(int fd, const uint8_t *data, size_t size) {
    for (ssize_t sent; size; data += sent, size -= (size_t)sent)
        if ((sent = write(fd, data, size)) < 0) return;
}

static void reply(int fd, int channel, uint32_t method, const void *arguments, size_t size) {
    uint8_t frame[256], *at = put(put(put(put(frame, 1, 1), (uint64_t)channel, 2), 4 + size, 4), method, 4);
    memcpy(at, arguments, size);
    at[size] = 0xCE;
    write_all(fd, frame, 12 + size);
}

static void deliver(int fd, struct peer *peer) {
    static uint8_t out[DELIVERIES_AHEAD * (BODY_BYTES + 128)];
    uint8_t *at = out;
    while (peer->delivered - peer->acked < DELIVERIES_AHEAD) {
        uint8_t *start = at;
        at = put(put(put(at, 1, 1), 1, 2), 0, 4);
        at = put(put(put(put(at, 60u << 16 | 60, 4), 1, 1), 'c', 1), ++peer->delivered, 8);
        at = put(put(put(put(at, 0, 1), 0, 1), 1, 1), 'q', 1);
        put(start + 3, (uint64_t)(at - start - 7), 4);
        at = put(put(put(put(put(at, 0xCE, 1), 2, 1), 1, 2), 15, 4), 60u << 16, 4);
        at = put(put(put(put(at, BODY_BYTES, 8), 0x1000, 2), 2, 1), 0xCE, 1);
        at = put(put(put(at, 3, 1), 1, 2), BODY_BYTES, 4);
        put(put(put(at, 0, 8), 0, 4), peer->delivered, 4);
        at = put(at + BODY_BYTES, 0xCE, 1);
    }
    write_all(fd, out, (size_t)(at - out));
}

static void on_method(int fd, struct peer *peer, const uint8_t *at) {
    switch (get32(at)) {
    case 10u << 16 | 11: reply(fd, 0, 10u << 16 | 30, "\x07\xff\0\2\0\0\0\0", 8); break;
    case 10u << 16 | 40: reply(fd, 0, 10u << 16 | 41, "", 1); break;
    case 20u << 16 | 10: reply(fd, 1, 20u << 16 | 11, "\0\0\0", 4); break;
    case 50u << 16 | 10: reply(fd, 1, 50u << 16 | 11, "\1q\0\0\0\0\0\0\0", 10); break;
    case 50u << 16 | 40: reply(fd, 1, 50u << 16 | 41, "\0\0\0", 4); break;
    case 60u << 16 | 10: reply(fd, 1, 60u << 16 | 11, "", 0); break;
    case 60u << 16 | 20: reply(fd, 1, 60u << 16 | 21, "\1c", 2); peer->consuming = 1; break;
    case 60u << 16 | 40: peer->published++; break;
    case 60u << 16 | 80: peer->acked = get64(at + 4); break;
    case 85u << 16 | 10: reply(fd, 1, 85u << 16 | 11, "", 0); break;
    }
}

static int receive(int fd, struct peer *peer) {
    ssize_t got = read(fd, peer->in + peer->in_used, INPUT_BYTES - peer->in_used);
    if (got <= 0) return 0;
    peer->in_used += (size_t)got;
    uint8_t *at = peer->in, *end = at + peer->in_used;
    if (!peer->greeted && end - at >= 8) {
        peer->greeted = 1;
        at += 8;
        reply(fd, 0, 10u << 16 | 10, "\0\x09\0\0\0\0\0\0\0\5PLAIN\0\0\0\5en_US", 27);
    }
    while (peer->greeted && end - at >= 8 && (size_t)(end - at) >= get32(at + 3) + 8) {
        if (at[0] == 1) on_method(fd, peer, at + 7);
        at += get32(at + 3) + 8;
    }
    peer->in_used = (size_t)(end - at);
    memmove(peer->in, at, peer->in_used);
    if (peer->published > peer->confirmed) {
        uint8_t arguments[9];
        put(put(arguments, peer->published, 8), 1, 1);
        reply(fd, 1, 60u << 16 | 80, arguments, 9);
        peer->confirmed = peer->published;
    }
    if (peer->consuming) deliver(fd, peer);
    return 1;
}

int main(int count, char **arguments) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)(count > 1 ? atoi(arguments[1]) : 0));
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll_fd = epoll_create1(0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 128)) return perror("bind"), 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[64];
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &event);
    event.data.fd = 0;
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, 0, &event);
    for (;;) {
        int ready = epoll_wait(poll_fd, events, 64, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == 0) return 0;
            if (fd == listener) {
                fd = accept(listener, NULL, NULL);
                if (fd < 0 || fd >= FD_MAX) continue;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                peers[fd] = calloc(1, sizeof *peers[fd]);
                event.data.fd = fd;
                epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
            } else if (!receive(fd, peers[fd])) {
                close(fd);
                free(peers[fd]);
            }
        }
    }
}
