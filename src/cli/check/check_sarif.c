// The findings as SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format), which GitHub, GitLab and editors show
// beside the lines. Sections in comments are those of the standard.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "check_show.h"
#include "cli_alloc.h"
#include "json_writer.h"
#include "report.h"

// A file that plimsoll wrote is also recognised by it.
#define INFORMATION "Makes deep-learning training fit in GPU memory"

static const char *const levels[CHECK_SEVERITIES] = {"none", "note", "warning", "error"};

static void print_text(json_writer *j, const char *key, const char *text) {
  jsonw_object(j, key);
  jsonw_string(j, "text", text);
  jsonw_end(j);
}

static void print_tool(json_writer *j) {
  jsonw_object(j, "tool");
  jsonw_object(j, "driver");
  jsonw_string(j, "name", "plimsoll");
  jsonw_string(j, "version", PLIM_VERSION);
  print_text(j, "shortDescription", INFORMATION);
  jsonw_array(j, "rules");
  for (const check_rule *rule = check_rules; rule->id; rule++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "id", rule->id);
    print_text(j, "shortDescription", rule->what);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_end(j);
  jsonw_end(j);
}

// ---- places -----------------------------------------------------------------------------------------

static char *encoded(const char *scheme, const char *path) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  char *out = cli_alloc(strlen(scheme) + 3 * strlen(path) + 1), *end = stpcpy(out, scheme);
  for (; *path; path++)
    if (strchr(plain, *path)) *end++ = *path;
    else {
      static const char digits[] = "0123456789ABCDEF";
      *end++ = '%', *end++ = digits[(unsigned char)*path >> 4], *end++ = digits[*path & 15];
    }
  return out;
}

// 3.4: relative to the folder in which plimsoll runs, which is the top of the repository in a hook or a CI job. A file
// elsewhere has a full address. The folder of the file is resolved and the file is not, so that a link keeps its name.
static void print_address(json_writer *j, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  char *named = slash ? cli_strndup(path, (size_t)(slash - path) + 1) : cli_strndup("./", 2);
  char *folder = realpath(named, NULL), *here = realpath(".", NULL);
  if (!folder || !here) cli_out_of_memory();
  size_t length = strlen(here);
  if (length == 1) length = 0; // the root
  bool is_below = strncmp(folder, here, length) == 0 && (!folder[length] || folder[length] == '/');
  const char *below = is_below ? folder + length + (folder[length] == '/') : folder;
  char *whole = cli_format("%s%s%s", below, *below ? "/" : "", name);
  char *address = encoded(is_below ? "" : "file://", whole);
  jsonw_object(j, "artifactLocation");
  jsonw_string(j, "uri", address);
  if (is_below) jsonw_string(j, "uriBaseId", "%SRCROOT%");
  jsonw_end(j);
  free(named), free(folder), free(here), free(whole), free(address);
}

static void print_region(json_writer *j, const check_finding *f) {
  jsonw_object(j, "region");
  jsonw_i64(j, "startLine", f && f->line ? f->line : 1);
  if (f && f->column) {
    jsonw_i64(j, "startColumn", f->column);
    if (f->end_column) jsonw_i64(j, "endColumn", f->end_column);
    if (f->byte_count) {
      jsonw_u64(j, "byteOffset", f->byte);
      jsonw_u64(j, "byteLength", f->byte_count);
    }
  }
  jsonw_end(j);
}

static void print_location(json_writer *j, const char *path, const check_finding *f) {
  jsonw_array(j, "locations");
  jsonw_object(j, NULL);
  jsonw_object(j, "physicalLocation");
  print_address(j, path);
  print_region(j, f);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_end(j);
}

// The first of the files that were given; NULL: none is on the disk.
static const char *main_file(const check *c) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++)
    if (access(p->files.at[i]->path, F_OK) == 0) return p->files.at[i]->path;
  return NULL;
}

// Where a code review shows it. What would fail or may fail without a place of its own, such as a run that does not fit,
// is shown at the beginning of the file. NULL: nowhere.
static const char *place_of(const check *c, const check_finding *f) {
  if (f->severity == CHECK_OK) return NULL;
  if (*f->file && access(f->file, F_OK) == 0) return f->file;
  return f->severity >= CHECK_WARNING ? main_file(c) : NULL;
}

// ---- findings ---------------------------------------------------------------------------------------

static void print_message(json_writer *j, const check_finding *f) {
  char *text = cli_format("%s%s%s%s%s", f->what, *f->why ? "\nwhy: " : "", f->why,
                          *f->fix ? "\nfix: " : "", f->fix);
  print_text(j, "message", text);
  free(text);
}

static void print_rule(json_writer *j, const char *id) {
  size_t rule = check_rule_of(id);
  jsonw_string(j, "ruleId", id);
  if (check_rules[rule].id) jsonw_u64(j, "ruleIndex", rule);
}

static void print_findings(json_writer *j, const check *c) {
  for (size_t i = 0; i < c->findings.len; i++) {
    const check_finding *f = &c->findings.at[i];
    const char *path = place_of(c, f);
    if (!path) continue;
    jsonw_object(j, NULL);
    print_rule(j, f->id);
    jsonw_string(j, "level", levels[f->severity]);
    print_message(j, f);
    print_location(j, path, path == f->file ? f : NULL);
    jsonw_end(j);
  }
}

static int line_of(const char *path, uint64_t byte) {
  enum { MAX_BYTES = 64 << 20 };
  plim_line_counter lines = {0};
  char *text;
  size_t size;
  if (byte == PLIM_UNKNOWN || plim_text_file_read(path, MAX_BYTES, &text, &size, NULL)) return 1;
  int line = plim_line_at(&lines, text, byte < size ? (size_t)byte : size);
  free(text);
  return line;
}

// A file that is not what its name says: whatever reads it will stop as well.
static void print_unreadable(json_writer *j, const checked *x) {
  const char *path = *x->error.file ? x->error.file : x->named;
  if (!path || access(path, F_OK)) return;
  const check_finding at = {.line = line_of(path, x->error.byte)};
  char *text =
      cli_format("%s%s%s", x->error.message, *x->error.hint ? "\nfix: " : "", x->error.hint);
  jsonw_object(j, NULL);
  print_rule(j, "files.unreadable");
  jsonw_string(j, "level", "error");
  print_text(j, "message", text);
  print_location(j, path, &at);
  jsonw_end(j);
  free(text);
}

static void print_notification(json_writer *j, const char *level, const char *named,
                               const char *text) {
  char *whole = cli_format("%s%s%s", named ? named : "", named ? ": " : "", text);
  jsonw_object(j, NULL);
  jsonw_string(j, "level", level);
  print_text(j, "message", whole);
  jsonw_end(j);
  free(whole);
}

// 3.20: what belongs to no line of a file, such as an assumption, is said here.
static void print_notifications(json_writer *j, const checked *x) {
  const check *c = &x->of;
  const char *why_not = NULL;
  if (x->has_failed) print_notification(j, "error", x->named, x->error.message);
  if (x->is_passed_over) print_notification(j, "note", x->named, checked_why(x));
  if (x->has_failed || x->is_passed_over) return;
  for (size_t i = 0; i < c->findings.len; i++) {
    const check_finding *f = &c->findings.at[i];
    if (f->severity != CHECK_OK && !place_of(c, f))
      print_notification(j, levels[f->severity], x->named, f->what);
  }
  check_decide(c, &why_not);
  if (why_not) print_notification(j, "note", x->named, why_not);
}

static void print_run(json_writer *j, const checked *all, size_t count) {
  bool has_failed = false;
  for (size_t i = 0; i < count; i++) has_failed = has_failed || all[i].has_failed;
  jsonw_object(j, NULL);
  print_tool(j);
  jsonw_string(j, "columnKind", "unicodeCodePoints");
  jsonw_array(j, "invocations");
  jsonw_object(j, NULL);
  jsonw_bool(j, "executionSuccessful", !has_failed);
  jsonw_array(j, "toolExecutionNotifications");
  for (size_t i = 0; i < count; i++) print_notifications(j, &all[i]);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_array(j, "results");
  for (size_t i = 0; i < count; i++)
    if (all[i].has_failed) print_unreadable(j, &all[i]);
    else if (!all[i].is_passed_over) print_findings(j, &all[i].of);
  jsonw_end(j);
  jsonw_end(j);
}

plim_err check_write_sarif(const char *path, const checked *all, size_t count, plim_error *error) {
  plim_atomic_file file;
  plim_err err = plim_atomic_open(&file, path, error);
  if (err) return err;
  json_writer j = jsonw_begin(file.out);
  jsonw_object(&j, NULL);
  jsonw_string(&j, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
  jsonw_string(&j, "version", "2.1.0");
  jsonw_array(&j, "runs");
  print_run(&j, all, count);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
  return plim_atomic_commit(&file, error);
}

bool check_is_sarif(const char *text, size_t size) {
  return memmem(text, size, INFORMATION, strlen(INFORMATION)) && memmem(text, size, "sarif", 5);
}
