#include "web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "curl.h"

enum { MAX_REDIRECTS = 5, URL_BYTES = 2048, MAX_HEADER_BYTES = 256 << 10, CONNECT_SECONDS = 10 };

// ---- addresses --------------------------------------------------------------------------------------

static const char *host_of(const char *url, size_t *length) {
  const char *mark = strstr(url, "://");
  const char *host = mark ? mark + 3 : url;
  *length =
      *host == '[' ? strcspn(host, "]/?#") + (strchr(host, ']') != NULL) : strcspn(host, ":/?#");
  return host;
}

size_t plim_web_place_length(const char *url) {
  size_t length;
  const char *host = host_of(url, &length);
  return (size_t)(host - url) + length + strcspn(host + length, "/?#");
}

static bool is_this_machine(const char *url) {
  size_t length;
  char host[64];
  struct in_addr v4;
  const char *at = host_of(url, &length);
  if (length >= sizeof host) return false;
  snprintf(host, sizeof host, "%.*s", (int)length, at);
  if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
  return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static bool has_scheme(const char *url, const char *scheme) {
  return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

bool plim_web_is_safe(const char *url) {
  size_t length, place = plim_web_place_length(url);
  for (const char *c = url; *c; c++)
    if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\') return false;
  if (strlen(url) >= URL_BYTES || memchr(url, '@', place)) return false;
  host_of(url, &length);
  bool is_open = has_scheme(url, "http://") && is_this_machine(url);
  return length > 0 && (has_scheme(url, "https://") || is_open);
}

bool plim_web_is_same_place(const char *a, const char *b) {
  size_t length = plim_web_place_length(a);
  return length == plim_web_place_length(b) && strncasecmp(a, b, length) == 0;
}

// ---- one request ------------------------------------------------------------------------------------

typedef struct {
  char *text; // header and body as they came
  size_t size, capacity;
} answer_text;

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool make_room(answer_text *a, size_t more) {
  if (a->size + more < a->capacity) return true;
  size_t capacity = a->capacity ? 2 * a->capacity : 16 << 10;
  char *text = realloc(a->text, capacity);
  if (!text) return false;
  a->text = text, a->capacity = capacity;
  return true;
}

// Reads until curl closes the pipe. ETIMEDOUT: it does not end although its time is over; EFBIG, ENOMEM.
static int read_all(int fd, size_t limit, int64_t end_ms, answer_text *a) {
  enum { PIECE = 4096 };
  for (;;) {
    int64_t left = end_ms - now_ms();
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int ready = left > 0 ? poll(&one, 1, (int)left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return ETIMEDOUT;
    if (!make_room(a, PIECE + 1)) return ENOMEM;
    ssize_t count = read(fd, a->text + a->size, PIECE);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : 0;
    a->size += (size_t)count;
    if (a->size > limit) return EFBIG;
  }
}

static plim_err refuse(const char *url, const char *why, plim_error *error) {
  return plim_fail(error, PLIM_ERR_IO, "%.*s could not be asked: %s",
                   (int)plim_web_place_length(url), url, why);
}

static plim_err refuse_network(const char *url, const char *why, plim_error *error) {
  plim_err err = refuse(url, why, error);
  plim_error_hint(error, "check the network (and https_proxy, if this machine needs a proxy)");
  return err;
}

static plim_err refuse_start(int why, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_IO, "curl cannot be started: %s",
                           why == ENOENT ? "it is not installed" : strerror(why));
  if (why == ENOENT)
    plim_error_hint(error,
                    "install it, on Debian and Ubuntu: apt-get install curl ca-certificates");
  return err;
}

static plim_err refuse_read(int why, const plim_web_request *r, const char *url,
                            plim_error *error) {
  char text[96];
  if (why == ENOMEM) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (why == EFBIG) return refuse(url, "its answer is too large", error);
  if (why != ETIMEDOUT) return refuse(url, strerror(why), error);
  snprintf(text, sizeof text, "it did not answer within %d seconds", r->seconds);
  return refuse_network(url, text, error);
}

// Starts curl; *from is where to read its output.
static int start(const plim_web_request *r, const char *url, int64_t end_ms, pid_t *pid,
                 int *from) {
  enum { MOST_OPTIONS = 16 };
  plim_curl_option options[MOST_OPTIONS];
  size_t count = 0;
  char seconds[24], connect[24], size[24], bearer[1024];
  int ends[2];
  int64_t left = (end_ms - now_ms()) / 1000;
  snprintf(seconds, sizeof seconds, "%lld", (long long)(left > 0 ? left : 1));
  snprintf(connect, sizeof connect, "%d", CONNECT_SECONDS);
  snprintf(size, sizeof size, "%zu", r->limit_bytes);
  options[count++] = (plim_curl_option){"url", url};
  options[count++] = (plim_curl_option){"user-agent", r->agent};
  options[count++] = (plim_curl_option){"max-time", seconds};
  options[count++] = (plim_curl_option){"connect-timeout", connect};
  options[count++] = (plim_curl_option){"max-filesize", size};
  options[count++] = (plim_curl_option){"proto", "=http,https"};
  options[count++] = (plim_curl_option){"write-out", "\\n%{redirect_url}"}; // behind the document
  options[count++] = (plim_curl_option){"include", NULL};                   // the header before it
  options[count++] = (plim_curl_option){"suppress-connect-headers", NULL};
  options[count++] = (plim_curl_option){"globoff", NULL};
  options[count++] = (plim_curl_option){"silent", NULL};
  if (is_this_machine(url)) options[count++] = (plim_curl_option){"noproxy", "*"};
  if (r->token && plim_web_is_same_place(url, r->url)) {
    snprintf(bearer, sizeof bearer, "Authorization: Bearer %s", r->token);
    options[count++] = (plim_curl_option){"header", bearer};
  }
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  int why = plim_curl_start(options, count, ends[1], pid);
  close(ends[1]);
  if (why) close(ends[0]);
  else *from = ends[0];
  return why;
}

static plim_err ask(const plim_web_request *r, const char *url, int64_t end_ms, answer_text *a,
                    plim_error *error) {
  enum { GRACE_MS = 2000 }; // curl ends by itself when its time is over
  pid_t pid;
  int from = -1, status = 0;
  int why = start(r, url, end_ms, &pid, &from);
  if (why) return refuse_start(why, error);
  why = read_all(from, r->limit_bytes + MAX_HEADER_BYTES, end_ms + GRACE_MS, a);
  close(from);
  if (why) kill(pid, SIGKILL);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (why) return refuse_read(why, r, url, error);
  char text[96];
  if (!status) return PLIM_OK;
  plim_curl_trouble(status, r->seconds, text, sizeof text);
  return refuse_network(url, text, error);
}

// ---- an answer --------------------------------------------------------------------------------------

// The end of the header that begins at `text`; NULL: it has none.
static char *header_end(char *text, char **body) {
  char *crlf = strstr(text, "\r\n\r\n"), *lf = strstr(text, "\n\n");
  char *end = crlf && (!lf || crlf < lf) ? crlf : lf;
  if (end) *body = end + (end == crlf ? 4 : 2);
  return end;
}

static void read_field(const char *header, const char *name, char *out, size_t size) {
  size_t length = strlen(name);
  *out = 0;
  for (const char *line = header; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
    const char *value = line + length + 1;
    value += strspn(value, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(value, " \t\r\n"), value);
  }
}

bool plim_web_answer_read(char *text, size_t size, plim_web_answer *out, const char **redirect) {
  char *at = text, *body, *trailer = memrchr(text, '\n', size);
  *out = (plim_web_answer){0};
  text[size] = 0;
  if (!trailer) return false;
  for (;; at = body) { // informational answers (1xx) come before
    char *end = header_end(at, &body);
    if (!end || body > trailer || sscanf(at, "HTTP/%*s %d", &out->status) != 1) return false;
    *end = 0;
    if (out->status >= 200) break;
  }
  read_field(at, "X-Error-Code", out->code, sizeof out->code);
  out->size = (size_t)(trailer - body);
  memmove(text, body, out->size); // the header before it leaves the trailer as it is
  text[out->size] = 0;
  out->body = text;
  *redirect = trailer + 1;
  return true;
}

static plim_err follow(const plim_web_request *r, char url[URL_BYTES], const char *to, int count,
                       plim_error *error) {
  char why[256];
  if (count < MAX_REDIRECTS && plim_web_is_safe(to)) {
    snprintf(url, URL_BYTES, "%s", to);
    return PLIM_OK;
  }
  if (count < MAX_REDIRECTS)
    snprintf(why, sizeof why, "it redirects to %.120s, which is not a secure address", to);
  else snprintf(why, sizeof why, "it redirects more than %d times", MAX_REDIRECTS);
  return refuse(r->url, why, error);
}

// A redirect of the web to an address of this machine would reach services that only this machine may reach.
static bool is_inwards(const plim_web_request *r, const char *to) {
  return is_this_machine(to) && !is_this_machine(r->url);
}

plim_err plim_web_get(const plim_web_request *r, plim_web_answer *out, plim_error *error) {
  char url[URL_BYTES];
  int64_t end_ms = now_ms() + (int64_t)r->seconds * 1000;
  *out = (plim_web_answer){0};
  if (!plim_web_is_safe(r->url)) return refuse(r->url, "it is not a secure address", error);
  snprintf(url, sizeof url, "%s", r->url);
  for (int count = 0;; count++) {
    answer_text a = {0};
    plim_err err = ask(r, url, end_ms, &a, error);
    const char *to = "";
    if (!err && (!make_room(&a, 1) || !plim_web_answer_read(a.text, a.size, out, &to)))
      err = refuse(url, "its answer is not HTTP", error);
    if (!err && out->size > r->limit_bytes) err = refuse(url, "its answer is too large", error);
    bool is_redirect = !err && *to && out->status >= 300 && out->status < 400;
    if (is_redirect && is_inwards(r, to))
      err = refuse(r->url, "it redirects to an address of this machine", error);
    if (is_redirect && !err) err = follow(r, url, to, count, error);
    if (!err && !is_redirect) return PLIM_OK;
    free(a.text);
    *out = (plim_web_answer){0};
    if (err) return err;
  }
}
