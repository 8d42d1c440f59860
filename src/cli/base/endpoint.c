// A small HTTP server on the loopback interface, for one document.
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli_alloc.h"
#include "endpoint.h"

enum { CLIENTS = 16, REQUEST_BYTES = 8192 };
#define CLIENT_SECONDS 10 // a client that takes longer is dropped

typedef struct {
  int socket; // -1: free
  double until_seconds;
  char request[REQUEST_BYTES];
  size_t request_size;
  char *answer; // NULL: still reading
  size_t answer_size, sent;
} client;

struct endpoint {
  int socket;
  uint16_t port;
  client clients[CLIENTS];
};

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- opening ----------------------------------------------------------------------------------------

static int listen_on(uint16_t port, uint16_t *chosen) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int yes = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s < 0) return -1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  bool ok = bind(s, (struct sockaddr *)&address, size) == 0 && listen(s, CLIENTS) == 0 &&
            getsockname(s, (struct sockaddr *)&address, &size) == 0;
  *chosen = ntohs(address.sin_port);
  if (ok) return s;
  int reason = errno;
  close(s);
  errno = reason;
  return -1;
}

plim_err endpoint_open(uint16_t port, endpoint **out, plim_error *error) {
  endpoint *e = cli_alloc(sizeof *e);
  e->socket = listen_on(port, &e->port);
  for (size_t i = 0; i < CLIENTS; i++) e->clients[i].socket = -1;
  *out = e;
  if (e->socket >= 0) return PLIM_OK;
  plim_fail(error, PLIM_ERR_IO, "cannot listen on 127.0.0.1:%u: %s", port, strerror(errno));
  free(e);
  *out = NULL;
  return PLIM_ERR_IO;
}

uint16_t endpoint_port(const endpoint *e) { return e->port; }

static void drop(client *c) {
  close(c->socket);
  free(c->answer);
  c->socket = -1;
  c->answer = NULL;
}

void endpoint_close(endpoint *e) {
  if (!e) return;
  for (size_t i = 0; i < CLIENTS; i++)
    if (e->clients[i].socket >= 0) drop(&e->clients[i]);
  close(e->socket);
  free(e);
}

// ---- answering --------------------------------------------------------------------------------------

// Whether the request names this machine. A web page that has its own name resolve to 127.0.0.1 must not read from here.
static bool is_local(const char *request) {
  static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
  const char *host = strcasestr(request, "\nhost:");
  if (!host) return true; // HTTP/1.0
  host += strlen("\nhost:");
  host += strspn(host, " \t");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = strlen(names[i]);
    if (strncasecmp(host, names[i], size) == 0 && strchr(":\r\n \t", host[size])) return true;
  }
  return false;
}

static bool asks_for(const char *request, const char *path) {
  size_t size = strlen(path);
  if (strncmp(request, "GET ", 4) != 0 || strncmp(request + 4, path, size) != 0) return false;
  return strchr(" ?", request[4 + size]);
}

static void answer(client *c, const char *status, const char *type, const char *body, size_t size) {
  char *head = cli_format("HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\n"
                          "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                          status, type, size);
  size_t head_size = strlen(head);
  c->answer = cli_alloc(head_size + size + 1);
  memcpy(c->answer, head, head_size);
  memcpy(c->answer + head_size, body, size);
  c->answer_size = head_size + size;
  c->sent = 0;
  free(head);
}

static void refuse(client *c, const char *status, const char *why) {
  answer(c, status, "text/plain", why, strlen(why));
}

static void choose_answer(client *c, const endpoint_document *d) {
  if (strncmp(c->request, "GET ", 4) != 0) refuse(c, "405 Method Not Allowed", d->hint);
  else if (!is_local(c->request)) refuse(c, "403 Forbidden", "");
  else if (asks_for(c->request, d->path)) answer(c, "200 OK", d->type, d->body, d->size);
  else refuse(c, "404 Not Found", d->hint);
}

static void read_request(client *c, const endpoint_document *d) {
  ssize_t got =
      recv(c->socket, c->request + c->request_size, REQUEST_BYTES - 1 - c->request_size, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    drop(c);
    return;
  }
  c->request_size += (size_t)got;
  c->request[c->request_size] = 0;
  bool is_whole = strstr(c->request, "\r\n\r\n") || strstr(c->request, "\n\n");
  if (is_whole) choose_answer(c, d);
  else if (c->request_size == REQUEST_BYTES - 1)
    refuse(c, "431 Request Header Fields Too Large", "");
}

static void send_answer(client *c) {
  ssize_t sent = send(c->socket, c->answer + c->sent, c->answer_size - c->sent, MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent > 0) c->sent += (size_t)sent;
  if (sent <= 0 || c->sent == c->answer_size) {
    shutdown(c->socket, SHUT_WR);
    drop(c);
  }
}

static void admit(endpoint *e) {
  int s = accept4(e->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (s < 0) return;
  for (size_t i = 0; i < CLIENTS; i++) {
    if (e->clients[i].socket >= 0) continue;
    e->clients[i] = (client){.socket = s, .until_seconds = now_seconds() + CLIENT_SECONDS};
    return;
  }
  close(s); // all places are taken
}

// ---- serving ----------------------------------------------------------------------------------------

static void serve_once(endpoint *e, int wait_ms, const endpoint_document *d) {
  struct pollfd polled[CLIENTS + 1] = {{.fd = e->socket, .events = POLLIN}};
  for (size_t i = 0; i < CLIENTS; i++) {
    const client *c = &e->clients[i];
    polled[i + 1] = (struct pollfd){.fd = c->socket, .events = c->answer ? POLLOUT : POLLIN};
  }
  if (poll(polled, CLIENTS + 1, wait_ms) < 0) return;
  for (size_t i = 0; i < CLIENTS; i++) {
    client *c = &e->clients[i];
    if (c->socket < 0) continue;
    if (polled[i + 1].revents && c->answer) send_answer(c);
    else if (polled[i + 1].revents) read_request(c, d);
    if (c->socket >= 0 && now_seconds() > c->until_seconds) drop(c);
  }
  if (polled[0].revents & POLLIN) admit(e);
}

void endpoint_serve(endpoint *e, double seconds, const endpoint_document *d) {
  double end = now_seconds() + seconds;
  for (double left = seconds; left > 0; left = end - now_seconds())
    serve_once(e, (int)ceil(fmin(left, 1) * 1000), d);
}
