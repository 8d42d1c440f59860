#include "run_history.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MILLISECONDS 10000 // for another run that is writing
#define APPLICATION 0x504c494d  // "PLIM": marks the file as ours
#define VERSION 2

struct history {
  sqlite3 *db;
  char *path;
};

static const char schema[] =
    "CREATE TABLE run(id INTEGER PRIMARY KEY AUTOINCREMENT, began REAL, ended REAL, pid INTEGER,"
    " status INTEGER, command TEXT, folder TEXT, log TEXT, card TEXT, how TEXT,"
    " total INTEGER, peak INTEGER, steps INTEGER);"
    "CREATE TABLE sample(run INTEGER, time REAL, rank INTEGER, step INTEGER, allocated INTEGER,"
    " reserved INTEGER, used INTEGER, peak INTEGER);"
    "CREATE INDEX sample_of_run ON sample(run, time);"
    "CREATE TABLE event(run INTEGER, time REAL, kind TEXT, text TEXT);"
    "CREATE INDEX event_of_run ON event(run, time);";

// ---- SQL --------------------------------------------------------------------------------------------

static plim_err failed(const history *h, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_IO, "cannot use the record of runs, %.200s: %s", h->path,
                           sqlite3_errmsg(h->db));
  int code = sqlite3_errcode(h->db);
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
    plim_error_hint(error, "the file is damaged: move it away, and a new one is made");
  return err;
}

static bool execute(history *h, const char *sql) {
  return sqlite3_exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

// A statement; its values are bound one after the other.
typedef struct {
  sqlite3_stmt *sql;
  int bound, read;
  bool ok;
} statement;

static statement prepare(history *h, const char *sql) {
  statement s = {0};
  s.ok = sqlite3_prepare_v2(h->db, sql, -1, &s.sql, NULL) == SQLITE_OK;
  return s;
}

static void put_number(statement *s, double value) {
  s->ok = s->ok && sqlite3_bind_double(s->sql, ++s->bound, value) == SQLITE_OK;
}

static void put_integer(statement *s, int64_t value) {
  s->ok = s->ok && sqlite3_bind_int64(s->sql, ++s->bound, value) == SQLITE_OK;
}

// NULL if it is not known.
static void put_bytes(statement *s, uint64_t value) {
  if (value == PLIM_UNKNOWN) s->ok = s->ok && sqlite3_bind_null(s->sql, ++s->bound) == SQLITE_OK;
  else put_integer(s, (int64_t)value);
}

static void put_text(statement *s, const char *text) {
  s->ok = s->ok && sqlite3_bind_text(s->sql, ++s->bound, text, -1, SQLITE_TRANSIENT) == SQLITE_OK;
}

// Runs it to its end, and resets it for the next values.
static bool run_once(statement *s) {
  s->ok = s->ok && sqlite3_step(s->sql) == SQLITE_DONE && sqlite3_reset(s->sql) == SQLITE_OK;
  s->bound = 0;
  return s->ok;
}

// True: there is a row to read.
static bool next_row(statement *s) {
  int result = s->ok ? sqlite3_step(s->sql) : SQLITE_ERROR;
  s->ok = result == SQLITE_ROW || result == SQLITE_DONE;
  s->read = 0;
  return result == SQLITE_ROW;
}

static double get_number(statement *s) { return sqlite3_column_double(s->sql, s->read++); }
static int64_t get_integer(statement *s) { return sqlite3_column_int64(s->sql, s->read++); }

static uint64_t get_bytes(statement *s) {
  bool is_null = sqlite3_column_type(s->sql, s->read) == SQLITE_NULL;
  int64_t value = get_integer(s);
  return is_null || value < 0 ? PLIM_UNKNOWN : (uint64_t)value;
}

static char *get_text(statement *s) {
  const unsigned char *text = sqlite3_column_text(s->sql, s->read++);
  return text ? strdup((const char *)text) : NULL;
}

static plim_err end_statement(history *h, statement *s, plim_error *error) {
  plim_err err = s->ok ? PLIM_OK : failed(h, error);
  sqlite3_finalize(s->sql);
  return err;
}

// ---- the file ---------------------------------------------------------------------------------------

static int64_t pragma(history *h, const char *sql) {
  statement s = prepare(h, sql);
  int64_t value = next_row(&s) ? get_integer(&s) : -1;
  sqlite3_finalize(s.sql);
  return value;
}

static bool is_version_1(history *h) {
  return pragma(h, "PRAGMA application_id") == APPLICATION && pragma(h, "PRAGMA user_version") == 1;
}

// In one transaction, because another run may do the same.
static plim_err make_tables(history *h, plim_error *error) {
  char marks[96];
  sqlite3_snprintf(sizeof marks, marks, "PRAGMA application_id=%d; PRAGMA user_version=%d;",
                   APPLICATION, VERSION);
  bool ok = execute(h, "BEGIN IMMEDIATE");
  bool is_empty = ok && pragma(h, "SELECT count(*) FROM sqlite_master") == 0;
  if (is_empty) ok = execute(h, schema) && execute(h, marks);
  else if (ok && is_version_1(h))
    ok = execute(h, "ALTER TABLE sample ADD COLUMN peak INTEGER") && execute(h, marks);
  if (!ok || !execute(h, "COMMIT")) {
    plim_err err = failed(h, error);
    execute(h, "ROLLBACK");
    return err;
  }
  return PLIM_OK;
}

static plim_err check_tables(history *h, plim_error *error) {
  int64_t application = pragma(h, "PRAGMA application_id"),
          version = pragma(h, "PRAGMA user_version");
  if (application < 0) return failed(h, error);
  if (application != APPLICATION || version < 1)
    return plim_fail(error, PLIM_ERR_PARSE, "%.200s is not a record of runs", h->path);
  if (version == VERSION) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "the record of runs, %.200s, was written by a newer version of plimsoll", h->path);
  plim_error_hint(error, "update plimsoll, or move the file away, and a new one is made");
  return err;
}

plim_err history_open(const char *path, bool may_create, history **out, plim_error *error) {
  history *h = *out = calloc(1, sizeof *h);
  if (h) h->path = strdup(path);
  if (!h || !h->path) {
    history_close(h);
    return *out = NULL, plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  int flags = SQLITE_OPEN_READWRITE | (may_create ? SQLITE_OPEN_CREATE : 0);
  plim_err err = PLIM_OK;
  if (sqlite3_open_v2(path, &h->db, flags, NULL) != SQLITE_OK) err = failed(h, error);
  sqlite3_busy_timeout(h->db, WAIT_MILLISECONDS);
  if (!err && (may_create || is_version_1(h)))
    err = make_tables(h, error); // another run may have made them a moment ago
  if (!err) err = check_tables(h, error);
  if (err) history_close(h), *out = NULL;
  return err;
}

void history_close(history *h) {
  if (!h) return;
  sqlite3_close(h->db);
  free(h->path);
  free(h);
}

// ---- writing ----------------------------------------------------------------------------------------

plim_err history_begin(history *h, const history_run *run, int64_t *id, plim_error *error) {
  statement s = prepare(h, "INSERT INTO run(began, pid, command, folder, log, card, total)"
                           " VALUES(?, ?, ?, ?, ?, ?, ?)");
  put_number(&s, run->began);
  put_integer(&s, run->pid);
  put_text(&s, run->command);
  put_text(&s, run->folder);
  put_text(&s, run->log);
  put_text(&s, run->card);
  put_bytes(&s, run->total_bytes);
  if (run_once(&s)) *id = sqlite3_last_insert_rowid(h->db);
  return end_statement(h, &s, error);
}

static bool put_sample(statement *s, int64_t id, const history_sample *sample) {
  put_integer(s, id);
  put_number(s, sample->time);
  put_integer(s, sample->rank);
  put_bytes(s, sample->step);
  put_bytes(s, sample->allocated_bytes);
  put_bytes(s, sample->reserved_bytes);
  put_bytes(s, sample->used_bytes);
  put_bytes(s, sample->peak_bytes);
  return run_once(s);
}

static bool put_event(statement *s, int64_t id, const history_event *event) {
  put_integer(s, id);
  put_number(s, event->time);
  put_text(s, event->kind);
  put_text(s, event->text);
  return run_once(s);
}

plim_err history_add(history *h, int64_t id, const history_found *news, plim_error *error) {
  if (!execute(h, "BEGIN IMMEDIATE")) return failed(h, error);
  statement s = prepare(h, "INSERT INTO sample VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  for (size_t i = 0; i < news->samples.len && s.ok; i++) put_sample(&s, id, &news->samples.at[i]);
  plim_err err = end_statement(h, &s, error);
  if (!err) {
    s = prepare(h, "INSERT INTO event VALUES(?, ?, ?, ?)");
    for (size_t i = 0; i < news->events.len && s.ok; i++) put_event(&s, id, &news->events.at[i]);
    err = end_statement(h, &s, error);
  }
  if (!err && !execute(h, "COMMIT")) err = failed(h, error);
  if (err) execute(h, "ROLLBACK");
  return err;
}

plim_err history_end(history *h, int64_t id, const history_run *run, plim_error *error) {
  statement s =
      prepare(h, "UPDATE run SET ended=?, status=?, how=?, card=?, total=?, peak=?, steps=?"
                 " WHERE id=?");
  put_number(&s, run->ended);
  put_integer(&s, run->status);
  put_text(&s, run->end);
  put_text(&s, run->card);
  put_bytes(&s, run->total_bytes);
  put_bytes(&s, run->peak_bytes);
  put_bytes(&s, run->steps);
  put_integer(&s, id);
  run_once(&s);
  return end_statement(h, &s, error);
}

// ---- reading ----------------------------------------------------------------------------------------

// A run that goes on, or whose end was not recorded, has the peak and the steps of its samples.
#define OF_SAMPLES(what) "(SELECT max(" what ") FROM sample WHERE sample.run=run.id)"
#define RUN_COLUMNS                                                                                \
  "id, began, ended, pid, status, command, folder, log, card, how, total,"                         \
  " coalesce(peak, " OF_SAMPLES("coalesce(used, reserved)") "),"                                   \
                                                            " coalesce(steps, " OF_SAMPLES(        \
                                                                "step") ")"

static history_run get_run(statement *s) {
  history_run r = {.id = get_integer(s), .began = get_number(s), .ended = get_number(s)};
  r.pid = get_integer(s);
  r.status = (int)get_integer(s);
  r.command = get_text(s), r.folder = get_text(s), r.log = get_text(s);
  r.card = get_text(s), r.end = get_text(s);
  r.total_bytes = get_bytes(s), r.peak_bytes = get_bytes(s), r.steps = get_bytes(s);
  return r;
}

static void run_clear(history_run *r) {
  free(r->command), free(r->folder), free(r->log), free(r->card), free(r->end);
}

static plim_err read_runs(history *h, statement *s, history_found *out, plim_error *error) {
  bool has_memory = true;
  while (has_memory && next_row(s)) {
    history_run run = get_run(s);
    has_memory = vec_push(&out->runs, run);
    if (!has_memory) run_clear(&run);
  }
  plim_err err = end_statement(h, s, error);
  return err || has_memory ? err : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

plim_err history_list(history *h, size_t most, history_found *out, plim_error *error) {
  *out = (history_found){0};
  statement s = prepare(h, "SELECT " RUN_COLUMNS " FROM run ORDER BY id DESC LIMIT ?");
  put_integer(&s, most < INT64_MAX ? (int64_t)most : INT64_MAX);
  plim_err err = read_runs(h, &s, out, error);
  int64_t count = err ? -1 : pragma(h, "SELECT count(*) FROM run");
  out->run_count = count < 0 ? out->runs.len : (uint64_t)count;
  return err;
}

static plim_err read_samples(history *h, int64_t id, history_found *out, plim_error *error) {
  bool has_memory = true;
  statement s = prepare(h, "SELECT time, rank, step, allocated, reserved, used, peak FROM sample"
                           " WHERE run=? ORDER BY time, rank");
  put_integer(&s, id);
  while (has_memory && next_row(&s)) {
    history_sample sample = {.time = get_number(&s), .rank = get_integer(&s)};
    sample.step = get_bytes(&s);
    sample.allocated_bytes = get_bytes(&s), sample.reserved_bytes = get_bytes(&s);
    sample.used_bytes = get_bytes(&s), sample.peak_bytes = get_bytes(&s);
    has_memory = vec_push(&out->samples, sample);
  }
  plim_err err = end_statement(h, &s, error);
  return err || has_memory ? err : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static plim_err read_events(history *h, int64_t id, history_found *out, plim_error *error) {
  bool has_memory = true;
  statement s = prepare(h, "SELECT time, kind, text FROM event WHERE run=? ORDER BY time, rowid");
  put_integer(&s, id);
  while (has_memory && next_row(&s)) {
    history_event event = {.time = get_number(&s)};
    event.kind = get_text(&s), event.text = get_text(&s);
    has_memory = event.kind && event.text && vec_push(&out->events, event);
    if (!has_memory) free(event.kind), free(event.text);
  }
  plim_err err = end_statement(h, &s, error);
  return err || has_memory ? err : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

plim_err history_read(history *h, int64_t id, history_found *out, plim_error *error) {
  *out = (history_found){0};
  statement s = prepare(h, "SELECT " RUN_COLUMNS " FROM run WHERE id=?");
  put_integer(&s, id);
  plim_err err = read_runs(h, &s, out, error);
  if (!err && !out->runs.len)
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "there is no run %lld", (long long)id);
  if (!err) err = read_samples(h, id, out, error);
  return err ? err : read_events(h, id, out, error);
}

void history_found_clear(history_found *found) {
  for (size_t i = 0; i < found->runs.len; i++) run_clear(&found->runs.at[i]);
  for (size_t i = 0; i < found->events.len; i++)
    free(found->events.at[i].kind), free(found->events.at[i].text);
  vec_free(&found->runs);
  vec_free(&found->samples);
  vec_free(&found->events);
}
