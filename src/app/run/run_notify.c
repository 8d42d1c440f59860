// Tells a webhook what happens, by curl, in a process of its own: whatever goes wrong there does not touch the run.
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "curl.h"
#include "run_impl.h"
#include "text.h"

enum { MOST_SECONDS = 10 }; // that the webhook may take

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

// Says it once: a webhook that is down would otherwise add a line to each event.
static void tell_failure(run *r, const char *why) {
  if (r->has_notify_failed) return;
  r->has_notify_failed = true;
  run_tell(r, RUN_DETAIL, "the webhook could not be notified: %s", why);
}

static void tell_status(run *r, int status) {
  char why[96];
  plim_curl_trouble(status, MOST_SECONDS, why, sizeof why);
  tell_failure(r, why);
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

static void send(run *r, const char *url, const char *body) {
  char seconds[16];
  pid_t pid;
  snprintf(seconds, sizeof seconds, "%d", MOST_SECONDS);
  const plim_curl_option options[] = {
      {"url", url},       {"header", "Content-Type: application/json"},
      {"data-raw", body}, {"max-time", seconds},
      {"silent", NULL},   {"fail", NULL}};
  int why = plim_curl_start(options, sizeof options / sizeof *options, -1, &pid);
  if (why == ENOENT) tell_failure(r, "curl cannot be started; is it installed?");
  else if (why) tell_failure(r, strerror(why));
  else if (!vec_push(&r->senders, pid)) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
}

void run_notify(run *r, const char *event, const char *text) {
  reap(r);
  const char *url = r->options.notify;
  json_t *about = url ? document(url, event, text, r) : NULL;
  char *body = about ? json_dumps(about, JSON_COMPACT) : NULL;
  if (body) send(r, url, body);
  free(body);
  json_decref(about);
}

void run_notify_end(run *r) {
  enum { MOST_TENTHS = 10 * MOST_SECONDS + 10 }; // curl gives up before that
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
