#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_writer.h"

static char no_memory[] =
    "{\"error\": {\"code\": \"memory\", \"message\": \"the page ran out of memory\", "
    "\"hint\": \"close other tabs, or use the command line\", \"file\": null, \"byte\": null}}\n";

// ---- answers ----------------------------------------------------------------------------------------

static const char *const codes[] = {
    [PLIM_ERR_NOMEM] = "memory",
    [PLIM_ERR_IO] = "file",
    [PLIM_ERR_PARSE] = "parse",
    [PLIM_ERR_ARGUMENT] = "argument",
    [PLIM_ERR_UNSUPPORTED] = "unsupported",
};

static void write_error(json_writer *j, const void *context) {
  const plim_error *error = context;
  jsonw_object(j, NULL);
  jsonw_object(j, "error");
  jsonw_string(j, "code", codes[error->code]);
  jsonw_string(j, "message", error->message);
  jsonw_string_or_null(j, "hint", error->hint);
  jsonw_string_or_null(j, "file", error->file);
  jsonw_bytes(j, "byte", error->byte);
  jsonw_end(j);
  jsonw_end(j);
}

static char *failed(const plim_error *error) {
  char *text;
  if (error->code == PLIM_ERR_NOMEM) return no_memory;
  return json_text(write_error, error, &text, NULL) ? no_memory : text;
}

// Puts an answer, which it frees, into {"ok": ...}.
static char *succeeded(char *answer) {
  static const char before[] = "{\"ok\": ", after[] = "}\n";
  size_t length = strlen(answer);
  char *text = malloc(sizeof before + length + sizeof after);
  if (text) {
    memcpy(text, before, sizeof before - 1);
    memcpy(text + sizeof before - 1, answer, length);
    memcpy(text + sizeof before - 1 + length, after, sizeof after);
  }
  plimsoll_free(answer);
  return text ? text : no_memory;
}

static char *answered(plim_err err, char *answer, const plim_error *error) {
  return err ? failed(error) : succeeded(answer);
}

// ---- questions --------------------------------------------------------------------------------------

typedef plim_err question(const char *request, char **answer, plim_error *error);

static char *ask(question *act, const char *request) {
  char *answer;
  plim_error error = {0};
  plim_err err = act(request, &answer, &error);
  return answered(err, answer, &error);
}

char *plim_web_estimate(const char *request) { return ask(plimsoll_estimate, request); }
char *plim_web_plan(const char *request) { return ask(plimsoll_plan, request); }
char *plim_web_replay(const char *request) { return ask(plimsoll_replay, request); }
char *plim_web_settings(const char *request) { return ask(plimsoll_settings, request); }
char *plim_web_list(const char *what) { return ask(plimsoll_list, what); }

// ---- snapshots --------------------------------------------------------------------------------------

char *plim_web_snapshot_open(const char *request) {
  char *answer;
  plimsoll_snapshot *snapshot;
  plim_error error = {0};
  if (plimsoll_snapshot_open(request, &snapshot, &error)) return failed(&error);
  if (asprintf(&answer, "%zu", (size_t)snapshot) >= 0) return succeeded(answer);
  plimsoll_snapshot_close(snapshot);
  return no_memory;
}

char *plim_web_snapshot_report(plimsoll_snapshot *snapshot) {
  char *answer;
  plim_error error = {0};
  plim_err err = plimsoll_snapshot_report(snapshot, &answer, &error);
  return answered(err, answer, &error);
}

char *plim_web_snapshot_replay(plimsoll_snapshot *snapshot, const char *request) {
  plim_error error = {0};
  if (plimsoll_snapshot_replay(snapshot, request, &error)) return failed(&error);
  char *nothing = strdup("null");
  return nothing ? succeeded(nothing) : no_memory;
}

typedef plim_err look(const plimsoll_snapshot *snapshot, const char *request, char **answer,
                      plim_error *error);

static char *look_at(look *act, const plimsoll_snapshot *snapshot, const char *request) {
  char *answer;
  plim_error error = {0};
  plim_err err = act(snapshot, request, &answer, &error);
  return answered(err, answer, &error);
}

char *plim_web_snapshot_timeline(plimsoll_snapshot *snapshot, const char *request) {
  return look_at(plimsoll_snapshot_timeline, snapshot, request);
}

char *plim_web_snapshot_moment(plimsoll_snapshot *snapshot, const char *request) {
  return look_at(plimsoll_snapshot_moment, snapshot, request);
}

void plim_web_snapshot_close(plimsoll_snapshot *snapshot) { plimsoll_snapshot_close(snapshot); }

// ---- the rest ---------------------------------------------------------------------------------------

void *plim_web_alloc(size_t size) { return malloc(size); }

void plim_web_free(char *text) {
  if (text != no_memory) free(text);
}

const char *plim_web_version(void) { return plimsoll_version(); }
