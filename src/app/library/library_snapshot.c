// The functions of plimsoll.h for recorded snapshots.
#include <stdlib.h>

#include "library.h"
#include "replay_options.h"

static const replay_args replay_defaults = REPLAY_DEFAULTS;

#define AT(field) offsetof(replay_args, field)
static const cli_option replay_rows[] = {
    REPLAY_OPTIONS(AT),
    {0},
};
#undef AT

static const cli_command replay_command = {.name = "replay",
                                           .options = replay_rows,
                                           .args_size = sizeof(replay_args),
                                           .defaults = &replay_defaults};

struct plimsoll_snapshot {
  library_request opened; // has the path
  replay_result result;
  bool is_lost; // memory ran out for another request: the result can only be replaced or cleared
};

void plimsoll_snapshot_close(plimsoll_snapshot *s) {
  if (!s) return;
  replay_result_clear(&s->result);
  library_clear(&s->opened);
  free(s);
}

plim_err plimsoll_snapshot_open(const char *request, plimsoll_snapshot **snapshot,
                                plim_error *error) {
  static const library_words path = {"snapshot", true};
  const char *source = NULL;
  plimsoll_snapshot *s = calloc(1, sizeof *s);
  *snapshot = NULL;
  if (!s) return plim_no_memory(error);
  locale_t before = library_enter();
  plim_err err = library_read(request, &replay_command, NULL, &path, &s->opened, error);
  if (!err)
    err = replay_make(s->opened.call.words.at[0], s->opened.call.args, &s->result, &source, error);
  library_forget_byte(err, source, error);
  library_leave(before);
  if (err) plimsoll_snapshot_close(s);
  else *snapshot = s;
  return err;
}

static plim_err check_result(const plimsoll_snapshot *s, plim_error *error) {
  if (!s->is_lost) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_NOMEM, "memory ran out when the snapshot was replayed again");
  plim_error_hint(error, "replay it with {}, or close it");
  return err;
}

plim_err plimsoll_snapshot_report(const plimsoll_snapshot *s, char **answer, plim_error *error) {
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err = check_result(s, error);
  if (!err) err = json_text(replay_write, &s->result, answer, error);
  library_leave(before);
  return err;
}

plim_err plimsoll_replay(const char *request, char **answer, plim_error *error) {
  plimsoll_snapshot *s;
  *answer = NULL;
  plim_err err = plimsoll_snapshot_open(request, &s, error);
  if (!err) err = plimsoll_snapshot_report(s, answer, error);
  plimsoll_snapshot_close(s);
  return err;
}

plim_err plimsoll_snapshot_replay(plimsoll_snapshot *s, const char *request, plim_error *error) {
  library_request q;
  replay_request wanted;
  plim_alloc_conf conf;
  const char *source = NULL;
  locale_t before = library_enter();
  plim_err err = library_read(request, &replay_command, "device", NULL, &q, error);
  if (!err) err = replay_request_of(q.call.args, &wanted, &conf, &source, error);
  library_forget_byte(err, source, error);
  if (!err) {
    err = replay_again(&s->result, &wanted, error);
    s->is_lost = err != PLIM_OK;
  }
  library_clear(&q);
  library_leave(before);
  return err;
}

// ---- parts ------------------------------------------------------------------------------------------

typedef struct {
  uint64_t columns, from, to;
} timeline_args;

enum { USUAL_COLUMNS = 1200, MOST_COLUMNS = 100000 };

plim_err plimsoll_snapshot_timeline(const plimsoll_snapshot *s, const char *request, char **answer,
                                    plim_error *error) {
  static const timeline_args defaults = {.columns = USUAL_COLUMNS, .to = PLIM_UNKNOWN};
  static const cli_option rows[] = {
      {"columns", 0, "N", CLI_UINT, offsetof(timeline_args, columns), NULL, NULL},
      {"from", 0, "N", CLI_UINT, offsetof(timeline_args, from), NULL, NULL},
      {"to", 0, "N", CLI_UINT, offsetof(timeline_args, to), NULL, NULL},
      {0}};
  static const cli_command command = {.name = "snapshot_timeline",
                                      .options = rows,
                                      .args_size = sizeof defaults,
                                      .defaults = &defaults};
  library_request q;
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err = library_read(request, &command, NULL, NULL, &q, error);
  if (!err) err = check_result(s, error);
  if (!err) {
    const timeline_args *args = q.call.args;
    size_t events = s->result.trace.events.len;
    size_t end = args->to < events ? (size_t)args->to : events;
    replay_part part = {&s->result, (size_t)args->from, end, (size_t)args->columns};
    if (args->from > end)
      err =
          plim_fail(error, PLIM_ERR_ARGUMENT, "\"from\" is after \"to\", or after the last event");
    else if (!args->columns || args->columns > MOST_COLUMNS)
      err =
          plim_fail(error, PLIM_ERR_ARGUMENT, "\"columns\" must be between 1 and %d", MOST_COLUMNS);
    else err = json_text(replay_write_timeline, &part, answer, error);
  }
  library_clear(&q);
  library_leave(before);
  return err;
}

typedef struct {
  uint64_t event;
} moment_args;

typedef struct {
  const replay_result *r;
  const plim_moment *moment;
} asked_moment;

static void write_moment(json_writer *j, const void *context) {
  const asked_moment *x = context;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  replay_write_moment(j, x->r, x->moment);
  jsonw_end(j);
}

static plim_err inspect(const replay_result *r, uint64_t event, char **answer, plim_error *error) {
  plim_moment moment = {0};
  if (!event || event > r->trace.events.len)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "\"event\" must be between 1 and %zu, the number of events",
                     r->trace.events.len);
  size_t at = (size_t)event - 1;
  bool ok = plim_inspect(&r->trace, &r->analysis, r->is_what_if ? &r->guided : NULL,
                         r->is_what_if ? &r->options : &r->recorded_options, &at, 1, &moment);
  plim_err err = ok ? json_text(write_moment, &(asked_moment){r, &moment}, answer, error)
                    : plim_no_memory(error);
  plim_moment_clear(&moment);
  return err;
}

plim_err plimsoll_snapshot_moment(const plimsoll_snapshot *s, const char *request, char **answer,
                                  plim_error *error) {
  static const moment_args defaults = {.event = PLIM_UNKNOWN};
  static const cli_option rows[] = {
      {"event", 0, "N", CLI_UINT, offsetof(moment_args, event), NULL, NULL}, {0}};
  static const cli_command command = {.name = "snapshot_moment",
                                      .options = rows,
                                      .args_size = sizeof defaults,
                                      .defaults = &defaults};
  library_request q;
  locale_t before = library_enter();
  *answer = NULL;
  plim_err err = library_read(request, &command, NULL, NULL, &q, error);
  if (!err) err = check_result(s, error);
  if (!err) err = inspect(&s->result, ((const moment_args *)q.call.args)->event, answer, error);
  library_clear(&q);
  library_leave(before);
  return err;
}
