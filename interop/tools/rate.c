/* A load generator to compare `tailrace bench` with. On purpose the two share nothing.
 *
 *     rate http|echo|nats|redis ADDRESS PORT RATE WARM_SECONDS SECONDS CONNECTIONS BYTES
 *
 * http: wrk2's method. Each connection has a schedule and a blocking thread of its own, one request at a time. A
 * request goes out when it is due, or as soon as the previous answer has come if that is later. echo, nats, redis: one
 * thread sends on schedule and waits for nothing, another reads what comes back (on the same connection, or as a
 * subscriber); CONNECTIONS is 1. In both cases latency counts from when a message was due, every latency is kept, and
 * all are sorted in the end.
 *
 * Each message must come back once, in order, with its bytes. Prints: messages, then p50, p99, p99.9 and maximum of the
 * latency, then p50 and p99 of how late messages went out on connections that were free, all in microseconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, BYTES_MIN = 16, BYTES_MAX = 65536, HEAD_MAX = 256, MESSAGES_MAX = 10000000 };

struct connection {
  int number, socket;
  long messages, measured, punctual;
  int64_t *latency, *lateness;
  pthread_t thread;
};

static struct sockaddr_in address;
static double rate, warm_s;
static int connections, bytes;
static int64_t start_ns;

static void die(const char *what) { fprintf(stderr, "rate: %s: %s\n", what, errno ? strerror(errno) : "not what is expected"); exit(1); }
static void wrong(const char *what) { errno = 0; die(what); }

/* ---- time ---- */
static int64_t now_ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void sleep_until(int64_t at_ns) {
  struct timespec t = {at_ns / 1000000000, at_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}
static int64_t due_ns(long message) { return start_ns + (int64_t)((double)message / rate * 1e9); }
static int is_measured(long message) { return due_ns(message) >= start_ns + (int64_t)(warm_s * 1e9); }

/* ---- the socket ---- */
static int connected(void) {
  int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("connect");
  return fd;
}
static void send_all(int fd, const char *data, size_t size) {
  while (size > 0) {
    ssize_t sent = write(fd, data, size);
    if (sent <= 0) die("write");
    data += sent, size -= (size_t)sent;
  }
}
static size_t receive(int fd, char *buffer, size_t room) {
  ssize_t got = read(fd, buffer, room);
  if (got <= 0) { if (got == 0) errno = 0; die("read"); }
  return (size_t)got;
}
/* Sends something and reads until the answer has come. */
static void say(int fd, const char *words, const char *answer) {
  char heard[8192];
  size_t used = 0;
  send_all(fd, words, strlen(words));
  for (heard[0] = 0; !strstr(heard, answer); heard[used] = 0) {
    if (used + 1 >= sizeof heard) wrong("an answer");
    used += receive(fd, heard + used, sizeof heard - 1 - used);
  }
}

/* ---- http: one request at a time ---- */
static void await_answer(int fd, const char *body) {
  char answer[BYTES_MAX + 4096], *end = NULL, *length;
  size_t used = 0;
  while (!end || used < (size_t)(end + 4 - answer) + (size_t)bytes) {
    used += receive(fd, answer + used, sizeof answer - 1 - used), answer[used] = 0;
    if (!end) end = strstr(answer, "\r\n\r\n");
  }
  if (strncmp(answer, "HTTP/1.1 200 ", 13)) wrong("status");
  length = strcasestr(answer, "content-length:");
  if (!length || length > end || atoi(length + 15) != bytes || used != (size_t)(end + 4 - answer) + (size_t)bytes) wrong("length of the answer");
  if (memcmp(end + 4, body, (size_t)bytes)) wrong("body of the answer");
}
/* The number of the message in 16 digits, and letters that depend on it. */
static void fill(char *payload, long message) {
  char digits[32]; /* room for any number; those of MESSAGES_MAX have fewer digits */
  snprintf(digits, sizeof digits, "%0*ld", BYTES_MIN, message);
  memcpy(payload, digits, BYTES_MIN);
  for (int i = BYTES_MIN; i < bytes; i++) payload[i] = (char)('a' + (message + i) % 26);
}
static void *ask(void *argument) {
  struct connection *c = argument;
  char request[HEAD_MAX + BYTES_MAX];
  int head = snprintf(request, HEAD_MAX, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", bytes);
  int64_t free_since = 0;
  for (long k = 0; k < c->messages; k++) {
    long message = k * connections + c->number;
    int64_t due = due_ns(message), sent;
    fill(request + head, message);
    if (now_ns() < due) sleep_until(due);
    sent = now_ns();
    send_all(c->socket, request, (size_t)(head + bytes));
    await_answer(c->socket, request + head);
    if (is_measured(message)) {
      c->latency[c->measured++] = now_ns() - due;
      if (free_since <= due) c->lateness[c->punctual++] = sent - due;
    }
    free_since = now_ns();
  }
  return NULL;
}

/* ---- echo, nats, redis: frames that differ in their payload only ---- */
struct flow {
  struct connection *c;
  int receiver;
  char send_head[HEAD_MAX], receive_head[HEAD_MAX], tail[4];
};
static void *read_frames(void *argument) {
  static char buffer[1 << 20];
  struct flow *f = argument;
  struct connection *c = f->c;
  size_t head = strlen(f->receive_head), frame = head + (size_t)bytes + strlen(f->tail), used = 0;
  char expected[BYTES_MAX];
  for (long message = 0; message < c->messages;) {
    size_t at = 0;
    int64_t now;
    used += receive(f->receiver, buffer + used, sizeof buffer - used), now = now_ns();
    for (;;) {
      if (used - at >= 6 && head > 0 && !memcmp(buffer + at, "PING\r\n", 6)) { at += 6; continue; } /* from NATS; a run is too short for it to mind */
      if (used - at < frame) break;
      fill(expected, message);
      if (memcmp(buffer + at, f->receive_head, head) || memcmp(buffer + at + head, expected, (size_t)bytes)) wrong("a message");
      if (is_measured(message)) c->latency[c->measured++] = now - due_ns(message);
      at += frame, message++;
    }
    memmove(buffer, buffer + at, used -= at);
  }
  return NULL;
}
static void send_frames(struct flow *f) {
  struct connection *c = f->c;
  char frame[HEAD_MAX + BYTES_MAX + 4], ignored[65536];
  size_t head = strlen(f->send_head), tail = strlen(f->tail);
  memcpy(frame, f->send_head, head), memcpy(frame + head + bytes, f->tail, tail);
  for (long message = 0; message < c->messages; message++) {
    fill(frame + head, message);
    if (now_ns() < due_ns(message)) sleep_until(due_ns(message));
    if (is_measured(message)) c->lateness[c->punctual++] = now_ns() - due_ns(message);
    send_all(c->socket, frame, head + (size_t)bytes + tail);
    if (f->receiver != c->socket) while (recv(c->socket, ignored, sizeof ignored, MSG_DONTWAIT) > 0) {} /* Redis answers each PUBLISH */
  }
}
static void flow(const char *protocol, struct connection *c) {
  static struct flow f;
  f.c = c, f.receiver = c->socket;
  if (strcmp(protocol, "echo")) {
    f.receiver = connected(), strcpy(f.tail, "\r\n");
    if (!strcmp(protocol, "nats")) {
      say(f.receiver, "CONNECT {\"verbose\":false}\r\nSUB rate.test 1\r\nPING\r\n", "PONG\r\n");
      say(c->socket, "CONNECT {\"verbose\":false}\r\nPING\r\n", "PONG\r\n");
      snprintf(f.send_head, HEAD_MAX, "PUB rate.test %d\r\n", bytes), snprintf(f.receive_head, HEAD_MAX, "MSG rate.test 1 %d\r\n", bytes);
    } else {
      say(f.receiver, "*2\r\n$9\r\nSUBSCRIBE\r\n$9\r\nrate.test\r\n", ":1\r\n");
      snprintf(f.send_head, HEAD_MAX, "*3\r\n$7\r\nPUBLISH\r\n$9\r\nrate.test\r\n$%d\r\n", bytes);
      snprintf(f.receive_head, HEAD_MAX, "*3\r\n$7\r\nmessage\r\n$9\r\nrate.test\r\n$%d\r\n", bytes);
    }
  }
  start_ns = now_ns() + 50000000;
  if (pthread_create(&c->thread, NULL, read_frames, &f)) die("thread");
  send_frames(&f);
  pthread_join(c->thread, NULL);
}

/* ---- all together ---- */
static int by_value(const void *a, const void *b) { int64_t x = *(const int64_t *)a, y = *(const int64_t *)b; return (x > y) - (x < y); }
/* The smallest value that a share of all does not exceed, in microseconds. */
static double quantile(const int64_t *sorted, long count, double share) {
  long rank = (long)(share * (double)count + 0.999999);
  if (count == 0) return 0;
  return (double)sorted[rank < 1 ? 0 : rank > count ? count - 1 : rank - 1] / 1e3;
}
static int64_t *room(long count) { int64_t *all = calloc((size_t)count + 1, sizeof *all); if (!all) die("memory"); return all; }

int main(int count, char **words) {
  static struct connection all[CONNECTIONS_MAX];
  long measured = 0, punctual = 0, total;
  int64_t *latency, *lateness;
  int is_http;
  if (count != 9 || !strstr(" http echo nats redis ", words[1])) { fprintf(stderr, "usage: rate http|echo|nats|redis ADDRESS PORT RATE WARM_SECONDS SECONDS CONNECTIONS BYTES\n"); return 2; }
  is_http = !strcmp(words[1], "http");
  address.sin_family = AF_INET, address.sin_port = htons((uint16_t)atoi(words[3]));
  if (inet_pton(AF_INET, words[2], &address.sin_addr) != 1) wrong("address");
  rate = atof(words[4]), warm_s = atof(words[5]), connections = atoi(words[7]), bytes = atoi(words[8]);
  total = (long)(rate * (warm_s + atof(words[6])));
  if (rate <= 0 || total < 1 || total > MESSAGES_MAX || connections < 1 || connections > (is_http ? CONNECTIONS_MAX : 1) || bytes < BYTES_MIN || bytes > BYTES_MAX) wrong("a number");
  latency = room(total), lateness = room(total);
  for (int i = 0; i < connections; i++) {
    struct connection *c = &all[i];
    c->number = i, c->messages = (total - i + connections - 1) / connections;
    c->latency = room(c->messages), c->lateness = room(c->messages), c->socket = connected();
  }
  if (is_http) {
    start_ns = now_ns() + 50000000;
    for (int i = 0; i < connections; i++) if (pthread_create(&all[i].thread, NULL, ask, &all[i])) die("thread");
    for (int i = 0; i < connections; i++) pthread_join(all[i].thread, NULL);
  } else flow(words[1], &all[0]);
  for (int i = 0; i < connections; i++) {
    struct connection *c = &all[i];
    memcpy(latency + measured, c->latency, (size_t)c->measured * sizeof *latency), measured += c->measured;
    memcpy(lateness + punctual, c->lateness, (size_t)c->punctual * sizeof *lateness), punctual += c->punctual;
  }
  qsort(latency, (size_t)measured, sizeof *latency, by_value), qsort(lateness, (size_t)punctual, sizeof *lateness, by_value);
  printf("%ld %.1f %.1f %.1f %.1f %.1f %.1f\n", measured, quantile(latency, measured, 0.5), quantile(latency, measured, 0.99), quantile(latency, measured, 0.999), quantile(latency, measured, 1),
         quantile(lateness, punctual, 0.5), quantile(lateness, punctual, 0.99));
  return 0;
}
