// Tells a webhook what happens, by curl, in a process of its own: whatever goes wrong there does not touch the run.
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run_impl.h"
#include "text.h"

// Discord and Slack want the text under a name of their own, and refuse documents without it.
static json_t *document(const char *url, const char *event, const char *text, const run *r) {
  if (strstr(url, "discord.com/") || strstr(url, "discordapp.com/"))
    return json_pack("{s:s}", "content", text);
  if (strstr(url, "hooks.slack.com/")) return json_pack("{s:s}", "text", text);
  char log[PLIM_PATH_BYTES];
  snprintf(log, sizeof log, "%s", r->folder.log);
  plim_text_disarm(log); // JSON has no bytes that are not UTF-8
  return json_pack("{s:s, s:s, s:I, s:s, s:f}", "event", event, "text", text, "run",
                   (json_int_t)r->id, "log", log, "began", r->began);
}

// The document goes through a pipe: arguments of a process can be read by everybody on the machine, and so can the URL,
// which is a secret. So both are in the configuration that curl reads from standard input.
static char *configuration(const char *url, const char *body) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  const char *const pairs[][2] = {
      {"url", url}, {"header", "Content-Type: application/json"}, {"data-raw", body}};
  for (size_t i = 0; i < 3; i++) {
    fprintf(out, "%s = \"", pairs[i][0]);
    for (const char *c = pairs[i][1]; *c; c++) {
      if (*c == '"' || *c == '\\') fputc('\\', out);
      fputc(*c, out);
    }
    fputs("\"\n", out);
  }
  fputs("silent\nfail\nmax-time = 10\noutput = /dev/null\n", out);
  return fclose(out) == 0 ? text : (free(text), NULL);
}

// Says it once: a webhook that is down would otherwise add a line to each event.
static void tell_failure(run *r, const char *why) {
  if (r->has_notify_failed) return;
  r->has_notify_failed = true;
  run_tell(r, RUN_DETAIL, "the webhook could not be notified: %s", why);
}

// By curl's exit status (its manual, EXIT CODES).
static void tell_status(run *r, int status) {
  char other[64];
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  snprintf(other, sizeof other, "curl ended with status %d", code);
  tell_failure(r, code == 6    ? "its host was not found"
                  : code == 7  ? "its host does not accept connections"
                  : code == 22 ? "it answered with an error"
                  : code == 28 ? "it did not answer within 10 seconds"
                               : other);
}

// Reaps those that have ended.
static void reap(run *r) {
  for (size_t i = r->senders.len; i-- > 0;) {
    int status = 0;
    if (waitpid(r->senders.at[i], &status, WNOHANG) == 0) continue;
    r->senders.at[i] = r->senders.at[--r->senders.len];
    if (status) tell_status(r, status);
  }
}

static void send(run *r, const char *text) {
  char *const words[] = {"curl", "--disable", "--config", "-", NULL};
  int ends[2];
  pid_t pid;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  fcntl(ends[1], F_SETFL, O_NONBLOCK); // a pipe holds 64 KiB or, for a user who has many, one page
  if (write(ends[1], text, strlen(text)) != (ssize_t)strlen(text)) {
    close(ends[0]), close(ends[1]);
    return;
  }
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  int why = posix_spawnp(&pid, words[0], &files, &attributes, words, environ);
  if (!why && !vec_push(&r->senders, pid)) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(ends[0]), close(ends[1]);
  if (why) tell_failure(r, "curl cannot be started; is it installed?");
}

void run_notify(run *r, const char *event, const char *text) {
  reap(r);
  const char *url = r->options.notify;
  json_t *about = url ? document(url, event, text, r) : NULL;
  char *body = about ? json_dumps(about, JSON_COMPACT) : NULL;
  char *config = body ? configuration(url, body) : NULL;
  if (config) send(r, config);
  free(config);
  free(body);
  json_decref(about);
}

void run_notify_end(run *r) {
  enum { MOST_TENTHS = 110 }; // of a second: curl gives up after 10 seconds
  for (int i = 0; reap(r), r->senders.len && i < MOST_TENTHS; i++) {
    if (i == 10) run_tell(r, RUN_DETAIL, "waiting for the webhook, at most 10 seconds");
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
  }
  for (size_t i = 0; i < r->senders.len; i++) {
    kill(r->senders.at[i], SIGKILL);
    waitpid(r->senders.at[i], NULL, 0);
  }
  vec_free(&r->senders);
}
