// What the library answers natively, for web_check.mjs: reads lines "CALL REQUEST", where CALL is a function of
// web/shim.h without its prefix, and prints each answer with a 0 behind it. Calls of a snapshot are about the one that was
// opened last.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

typedef char *question(const char *request);
typedef char *look(plimsoll_snapshot *snapshot, const char *request);

static const struct {
  const char *name;
  question *act;
} questions[] = {
    {"estimate", plim_web_estimate}, {"plan", plim_web_plan},
    {"replay", plim_web_replay},     {"settings", plim_web_settings},
    {"list", plim_web_list},         {"snapshot_open", plim_web_snapshot_open},
};

static char *report(plimsoll_snapshot *snapshot, const char *request) {
  (void)request;
  return plim_web_snapshot_report(snapshot);
}

static const struct {
  const char *name;
  look *act;
} looks[] = {
    {"snapshot_report", report},
    {"snapshot_replay", plim_web_snapshot_replay},
    {"snapshot_timeline", plim_web_snapshot_timeline},
    {"snapshot_moment", plim_web_snapshot_moment},
};

static plimsoll_snapshot *snapshot;

static char *ask(const char *call, const char *request) {
  for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
    if (strcmp(looks[i].name, call) == 0 && snapshot) return looks[i].act(snapshot, request);
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
    if (strcmp(questions[i].name, call) == 0) return questions[i].act(request);
  return NULL;
}

// Keeps the snapshot and takes its number out of the answer.
static void keep_snapshot(char *answer) {
  static const char ok[] = "{\"ok\": ";
  plimsoll_snapshot_close(snapshot);
  snapshot = NULL;
  if (strncmp(answer, ok, sizeof ok - 1) != 0) return;
  snapshot = (plimsoll_snapshot *)(uintptr_t)strtoull(answer + sizeof ok - 1, NULL, 10);
  strcpy(answer, "{\"ok\"}");
}

int main(void) {
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    char *request = line + strcspn(line, " ");
    if (!*request) return fprintf(stderr, "not a line of the form CALL REQUEST: %s", line), 2;
    *request++ = 0;
    request[strcspn(request, "\n")] = 0;
    char *answer = ask(line, request);
    if (answer && strcmp(line, "snapshot_open") == 0) keep_snapshot(answer);
    fputs(answer ? answer : "no snapshot is open", stdout);
    putchar(0);
    if (answer) plim_web_free(answer);
  }
  plimsoll_snapshot_close(snapshot);
  free(line);
  return 0;
}
