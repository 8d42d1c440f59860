// plimsoll apply: writes a plan into the user's own files, all of them or none.
#include <stdlib.h>
#include <string.h>

#include "apply_report.h"
#include "changeset.h"
#include "cli_alloc.h"
#include "command.h"
#include "json_writer.h"
#include "plan_edits.h"
#include "plan_file.h"
#include "show_steps.h"
#include "suggest.h"
#include "term.h"
#include "text.h"
#include "text_file.h"
#include "typed_line.h"
#include "units.h"

enum { PLAN_LIMIT = 16 << 20 }; // bytes

typedef struct {
  uint64_t rung;
  bool dry_run, outside;
  cli_strings done;
} apply_args;

static const apply_args defaults = {.rung = 1};

// ---- the files as they are now ------------------------------------------------------------------------------

static bool is_source(const char *text, size_t size, const plim_plan_source *source) {
  uint8_t digest[PLIM_SHA256_BYTES];
  plim_sha256(text, size, digest);
  return size == source->size && memcmp(digest, source->sha256, sizeof digest) == 0;
}

static plim_err check_unchanged(const plim_project_file *f, const plim_plan_source *source,
                                plim_error *error) {
  size_t size;
  const char *text = plim_source_of(f, &size);
  if (is_source(text, size, source)) return PLIM_OK;
  plim_content now = plim_content_of(text, size);
  plim_err err;
  if (plim_changeset_made(".", f->path, &now)) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "another plan, or another row of this one, is already applied to %.200s",
                    f->path);
    plim_error_hint(error, "run plimsoll undo, then this command again");
  } else {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.200s has changed since the plan was made",
                    f->path);
    plim_error_hint(error, "make a new plan: plimsoll plan FILES --gpu GPU --out plan.json");
  }
  return err;
}

static plim_err finish_project(const plim_plan_file *plan, plim_project *p, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; !err && i < plan->places.len; i++)
    err = plim_project_bind(p, plan->places.at[i].knob, plan->places.at[i].path,
                            plan->places.at[i].key, error);
  return err ? err : plim_project_finish(p, error);
}

// A file of a trainer that was not here when the plan was made, and is not now.
static bool is_shipped(const plim_plan_source *f) {
  return !f->text && plim_shipped_by(f->path) && !plim_is_file(f->path);
}

// A target of a Makefile or the like.
static plim_err read_target(plim_project *p, const plim_plan_source *f, plim_error *error) {
  char *text = NULL;
  size_t size;
  plim_err err = plim_text_file_read(f->path, PLAN_LIMIT, &text, &size, error);
  if (!err) err = plim_project_add_target(p, f->path, f->target, text, size, error);
  free(text);
  return err;
}

static plim_err read_project(const plim_plan_file *plan, plim_project *p, plim_error *error) {
  plim_err err = PLIM_OK;
  *p = (plim_project){0};
  for (size_t i = 0; !err && i < plan->files.len; i++) {
    const plim_plan_source *f = &plan->files.at[i];
    err = f->text         ? plim_project_add_typed(p, f->text, error)
          : is_shipped(f) ? plim_project_add_shipped(p, f->path, error)
          : f->target     ? read_target(p, f, error)
                          : plim_project_read(p, f->path, error);
  }
  if (err == PLIM_ERR_IO && !plim_is_file(error->file))
    plim_error_hint(error,
                    "paths in a plan are relative to the folder it was made in: cd there first");
  for (size_t i = 0; !err && i < p->files.len && i < plan->files.len; i++)
    err = check_unchanged(p->files.at[i], &plan->files.at[i], error);
  return err ? err : finish_project(plan, p, error);
}

// ---- manual steps -------------------------------------------------------------------------------------------

static bool is_done(const apply_args *args, plim_knob knob) {
  for (size_t i = 0; i < args->done.len; i++)
    if (plim_knob_named(args->done.at[i]) == knob) return true;
  return false;
}

static void describe(const plim_plan_left *left, char *text, size_t size) {
  char value[96];
  plim_value_print(&left->value, value, sizeof value);
  snprintf(text, size, "%s %s", plim_knob_table[left->knob].name, value);
}

// Lists the remaining manual changes: "chunked_loss on, attention sdpa", or with --done their options.
static void list_left(const plim_plan_file *plan, const apply_args *args, bool as_options,
                      char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < plan->by_hand.len && used < size; i++) {
    const plim_plan_left *left = &plan->by_hand.at[i];
    char what[160];
    if (is_done(args, left->knob)) continue;
    describe(left, what, sizeof what);
    used += (size_t)snprintf(text + used, size - used, "%s%s",
                             as_options ? " --done "
                             : used     ? ", "
                                        : "",
                             as_options ? plim_knob_table[left->knob].name : what);
  }
}

// Refuses to write only a part of the plan if that part does not fit, such as a larger batch without the chunked loss
// that made room for it.
static plim_err refuse_half(const plim_plan_file *plan, const apply_args *args, plim_error *error) {
  char what[200], needs[96] = "may not fit";
  list_left(plan, args, false, what, sizeof what);
  if (plan->fits_as_written || !*what) return PLIM_OK;
  if (plan->as_written_bytes)
    snprintf(needs, sizeof needs, "need %s, which does not fit",
             units_bytes(plan->as_written_bytes).text);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                   "%s cannot be written into your files, and without it the other changes %s",
                   what, needs);
}

// Refuses a plan of which nothing can be written because all of its steps are manual.
static plim_err refuse_empty(const plim_plan_file *plan, const apply_args *args,
                             plim_error *error) {
  char what[200];
  list_left(plan, args, false, what, sizeof what);
  if (!*what) return PLIM_OK;
  return plim_fail(
      error, PLIM_ERR_ARGUMENT,
      "this row of the plan has no changes to write into your files; change by hand: %s", what);
}

static bool is_manual(const plim_plan_file *plan, plim_knob knob) {
  for (size_t i = 0; i < plan->by_hand.len; i++)
    if (plan->by_hand.at[i].knob == knob) return true;
  return false;
}

static plim_err refuse_unknown(const plim_plan_file *plan, const char *name, plim_error *error) {
  const char *names[PLIM_KNOBS], *close;
  char list[200] = "";
  size_t count = 0;
  for (size_t i = 0; i < plan->by_hand.len && count < PLIM_KNOBS; i++)
    names[count++] = plim_knob_table[plan->by_hand.at[i].knob].name;
  close = plim_suggest(name, names, count);
  plim_suggest_list(names, count, count, list, sizeof list);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--done %.48s: there is no such knob", name);
  if (!count) plim_error_hint(error, "this row of the plan has no manual steps: leave --done out");
  else
    plim_error_hint(error, "%s%s%smanual steps of this row: %s", close ? "did you mean " : "",
                    close ? close : "", close ? "? " : "", list);
  return err;
}

// A knob that is not among the manual steps does no harm: a script may name all that it has done.
static plim_err check_done(const plim_plan_file *plan, const apply_args *args, plim_error *error) {
  for (size_t i = 0; i < args->done.len; i++) {
    plim_knob knob = plim_knob_named(args->done.at[i]);
    if (knob == PLIM_KNOBS) return refuse_unknown(plan, args->done.at[i], error);
    if (!is_manual(plan, knob))
      apply_note(cli_format("--done %s has no effect: it is not a manual step of this row",
                            plim_knob_table[knob].name));
  }
  return PLIM_OK;
}

// Prints the manual steps, except those that --done confirms.
static void print_steps(const plim_plan_file *plan, const apply_args *args, const char *heading,
                        FILE *out) {
  size_t number = 0;
  for (size_t i = 0; i < plan->steps.len; i++) {
    const plim_plan_step *step = &plan->steps.at[i];
    if (step->knob != PLIM_KNOBS && is_done(args, step->knob)) continue;
    if (!number++) fprintf(out, "%s\n", heading);
    steps_print(out, number, step->text, step->lines, step->why);
  }
}

// After a refusal: the two ways out. Commands are on their own lines, because a hint may be too short for them.
static void print_ways_out(const plim_plan_file *plan, const cli_call *call) {
  const apply_args *args = call->args;
  char names[200], done[200];
  list_left(plan, args, true, done, sizeof done);
  list_left(plan, args, false, names, sizeof names);
  const char *heading = "either do this by hand:";
  if (plan->changes
          .len) { // first, because a file that was edited by hand is no longer the one that was planned
    fprintf(stderr, "either write the other changes:\n  ");
    typed_line(call, stderr);
    fprintf(stderr, "%s\n", done);
    heading = "and then do this by hand:";
  }
  if (plan->steps.len) print_steps(plan, args, heading, stderr);
  else fprintf(stderr, "%s\n  %s\n", heading, names);
  fprintf(stderr, "or plan again without %s:\n  %s\n", names,
          plan->replan ? plan->replan : "plimsoll plan FILES --fix KNOB=VALUE --out plan.json");
}

// ---- writing ------------------------------------------------------------------------------------------------

typedef vec(plim_file_change) file_changes;

static plim_err new_texts(const plim_project *p, const plim_plan_file *plan, file_changes *out,
                          plim_error *error) {
  plim_edit_set edits;
  plim_err err = plim_project_set(p, plan->changes.at, plan->changes.len, &edits, error);
  if (err) return err;
  for (size_t i = 0; !err && i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    char *text = NULL;
    size_t size;
    if (f->is_typed) continue;
    size_t source_size;
    const char *source = plim_source_of(f, &source_size);
    err = plim_project_written(p, i, &edits, &text, &size, error);
    if (err) break;
    plim_file_change change = {f->path, plim_content_of(source, source_size), text, size};
    bool is_same = size == source_size && memcmp(text, source, size) == 0;
    bool is_kept = !is_same && vec_push(out, change);
    if (!is_kept) free(text);
    if (!is_kept && !is_same) err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  for (size_t i = 0; !err && i < edits.files.len; i++) {
    plim_new_file *f = &edits.files.at[i];
    if (f->is_there) continue;
    plim_file_change change = {f->path, plim_content_of(NULL, 0), f->text, strlen(f->text)};
    if (vec_push(out, change)) f->path = f->text = NULL; // the change owns them now
    else err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  }
  plim_edit_set_clear(&edits);
  return err;
}

static bool is_outside(const plim_changes *done) {
  for (size_t i = 0; i < done->count; i++)
    if (*done->files[i].path == '/') return true;
  return false;
}

static plim_err write_all(const file_changes *changes, bool outside, bool as_json,
                          plim_error *error) {
  plim_changeset_result result = {0};
  const plim_changeset_options how = {.outside = outside};
  plim_err err = plim_changeset_apply(".", changes->at, changes->len, &how, &result, error);
  apply_print_earlier(&result.earlier);
  if (!err) apply_print_done(&result.done, as_json);
  if (!err && !as_json && result.done.count)
    printf("to restore the files: plimsoll undo%s\n", is_outside(&result.done) ? " --outside" : "");
  if (!err) apply_say_if_unseen("the plan was applied; to restore the files: plimsoll undo");
  plim_changeset_result_clear(&result);
  return err;
}

// ---- a plan that was applied already ------------------------------------------------------------------------

// Adds a file as it was when the plan was made: the present file, or the backup of the last apply.
static bool add_source(plim_project *p, const plim_plan_source *source) {
  char *text = NULL, *backup = NULL;
  size_t size;
  if (source->text) return !plim_project_add_typed(p, source->text, NULL);
  if (is_shipped(source)) return !plim_project_add_shipped(p, source->path, NULL);
  bool is_read = !plim_text_file_read(source->path, PLAN_LIMIT, &text, &size, NULL);
  if (is_read && !is_source(text, size, source)) {
    plim_content now = plim_content_of(text, size);
    free(text), text = NULL;
    backup = plim_changeset_backup(".", source->path, &now);
    is_read = backup && !plim_text_file_read(backup, PLAN_LIMIT, &text, &size, NULL);
  }
  bool is_added =
      is_read && is_source(text, size, source) &&
      !(source->target ? plim_project_add_target(p, source->path, source->target, text, size, NULL)
                       : plim_project_add(p, source->path, text, size, NULL));
  free(text);
  free(backup);
  return is_added;
}

static bool holds_now(const plim_file_change *change) {
  char *text = NULL;
  size_t size;
  bool is = !plim_text_file_read(change->path, PLAN_LIMIT, &text, &size, NULL) &&
            size == change->after_size && memcmp(text, change->after, size) == 0;
  free(text);
  return is;
}

static void free_changes(file_changes *changes) {
  for (size_t i = 0; i < changes->len; i++) {
    if (!changes->at[i].before.exists) free((void *)changes->at[i].path);
    free((void *)changes->at[i].after);
  }
  vec_free(changes);
}

// Whether all files already have the content that the plan would write.
static bool is_applied(const plim_plan_file *plan) {
  plim_project before = {0};
  file_changes changes = {0};
  bool is = true;
  for (size_t i = 0; is && i < plan->files.len; i++) is = add_source(&before, &plan->files.at[i]);
  is = is && !finish_project(plan, &before, NULL) && !new_texts(&before, plan, &changes, NULL);
  is = is && changes.len;
  for (size_t i = 0; is && i < changes.len; i++) is = holds_now(&changes.at[i]);
  free_changes(&changes);
  plim_project_clear(&before);
  return is;
}

// A dry run's stdout is a diff.
static void say_unchanged(bool as_json, bool is_dry, const char *why) {
  if (as_json) apply_print_done(&(plim_changes){0}, true);
  else term_say(is_dry ? stderr : stdout, why, 0, 2);
}

static void note_outside(const file_changes *changes) {
  bool is_outside = false;
  for (size_t i = 0; i < changes->len && !is_outside; i++)
    is_outside = plim_path_is_outside(changes->at[i].path);
  if (is_outside)
    apply_note(cli_format(
        "some files are outside the current folder; apply this diff with git -C / apply"));
}

static plim_err show_diff(const plim_project *p, const plim_plan_file *plan,
                          const file_changes *changes, plim_error *error) {
  plim_diff diff = {0};
  plim_err err = plan_diff_of(p, plan->changes.at, plan->changes.len, &diff, error);
  if (!err) disarmed_write(diff.at, diff.len, stdout);
  if (!err) note_outside(changes);
  plim_diff_clear(&diff);
  return err;
}

// Prints the command line that belongs to the plan, if one was planned and it changes.
static void print_command(const char *command, FILE *out) {
  if (!command) return;
  fprintf(out, "start the training with:\n");
  disarmed_write(command, strlen(command), out);
  fprintf(out, "\n");
}

// ---- the commands -------------------------------------------------------------------------------------------

// Completes or rolls back a call that was killed, before anything is read.
static plim_err recover(bool outside, plim_error *error) {
  plim_changeset_result result = {0};
  const plim_changeset_options how = {.outside = outside};
  plim_err err = plim_changeset_recover(".", &how, &result, error);
  apply_print_earlier(&result.earlier);
  plim_changeset_result_clear(&result);
  return err;
}

// Refuses a plan that cannot be written completely, or not at all. A dry run still shows the diff.
static plim_err refuse(const plim_plan_file *plan, const apply_args *args, bool *is_refused,
                       plim_error *error) {
  plim_err err = plan->changes.len ? PLIM_OK : refuse_empty(plan, args, error);
  if (!err && !args->dry_run) err = refuse_half(plan, args, error);
  *is_refused = err;
  return err;
}

static plim_err apply(const plim_plan_file *plan, const apply_args *args, bool as_json,
                      bool *is_refused, plim_error *error) {
  plim_project project;
  file_changes changes = {0};
  plim_err err = read_project(plan, &project, error);
  if (err && plan->changes.len && is_applied(plan)) {
    plim_project_clear(&project);
    *error = (plim_error){0};
    say_unchanged(as_json, args->dry_run,
                  "already applied: your files have the settings of this plan");
    return PLIM_OK;
  }
  if (!err) err = refuse(plan, args, is_refused, error);
  if (!err) err = new_texts(&project, plan, &changes, error);
  FILE *out = args->dry_run ? stderr : stdout;
  char *comments = NULL, *command = NULL;
  if (!err) err = plan_comments(&project, plan->changes.at, plan->changes.len, &comments, error);
  if (!err) err = plan_command_of(&project, plan->changes.at, plan->changes.len, &command, error);
  if (!err && !changes.len && command)
    say_unchanged(as_json, args->dry_run, "no file changes: these settings are in the command");
  else if (!err && !changes.len)
    say_unchanged(as_json, args->dry_run, "nothing to do: the files already have these settings");
  else if (!err)
    err = args->dry_run ? show_diff(&project, plan, &changes, error)
                        : write_all(&changes, args->outside, as_json, error);
  bool is_whole =
      !err && !refuse_half(plan, args, NULL); // else the steps are shown with the refusal
  if (!err && !as_json) print_command(command, out);
  if (is_whole && !as_json) print_steps(plan, args, "to do by hand:", out);
  if (!err && !as_json) term_notes(out, comments);
  free(comments);
  free(command);
  free_changes(&changes);
  plim_project_clear(&project);
  return err;
}

static int run(const cli_call *call) {
  const apply_args *args = call->args;
  char *text = NULL;
  size_t size;
  plim_plan_file plan = {0};
  plim_error error = {0};
  plim_err err = args->dry_run ? PLIM_OK : recover(args->outside, &error);
  if (!err) err = plim_text_file_read(call->words.at[0], PLAN_LIMIT, &text, &size, &error);
  if (err && *error.hint && plim_is_folder(call->words.at[0]))
    plim_error_hint(
        &error, "name a saved plan; to save one: plimsoll plan FILES --gpu GPU --out plan.json");
  if (!err) err = plim_plan_file_parse(text, size, args->rung, &plan, &error);
  if (!err) err = check_done(&plan, args, &error);
  bool is_refused = false;
  if (!err) err = apply(&plan, args, call->common.json, &is_refused, &error);
  bool is_shown = !err && args->dry_run; // the diff is shown even if apply would refuse
  if (is_shown) err = refuse_half(&plan, args, &error);
  int status = err ? cli_report(&error, NULL) : CLI_OK;
  if (plan.by_hand.len && (is_refused || (err && is_shown))) print_ways_out(&plan, call);
  plim_plan_file_clear(&plan);
  free(text);
  return err && is_shown ? CLI_FINDING : status;
}

static const cli_positional positionals[] = {
    {"PLAN", "plan file written by plimsoll plan --out", CLI_FILE, 1, 1, NULL},
    {0},
};

static const cli_option options[] = {
    {"dry-run", 'n', NULL, CLI_FLAG, offsetof(apply_args, dry_run),
     "print a diff for git apply and change nothing", NULL},
    {"rung", 0, "N", CLI_UINT, offsetof(apply_args, rung),
     "which row to write: 1 is the plan, the others are its fallbacks (default: 1)", NULL},
    {"done", 0, "KNOB", CLI_STRINGS, offsetof(apply_args, done),
     "confirm that you make this change by hand, as the plan asks", NULL},
    {"outside", 0, NULL, CLI_FLAG, offsetof(apply_args, outside),
     "also change files outside the current folder; use it only for a plan that you trust", NULL},
    {0},
};

static const char *const description[] = {
    "Writes a plan into the files it was made from: either all of them or none. Only the changed "
    "values are replaced; comments, order, quoting and line endings stay the same. Each file gets "
    "a backup beside it, and plimsoll undo restores all of them. If a file has changed since the "
    "plan was made, apply refuses. If apply is killed, every file is still complete, either old or "
    "new; the next apply or undo finishes or rolls back the change and reports it.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll apply plan.json --dry-run | git apply --check",
     "check that the plan can be applied"},
    {"plimsoll apply plan.json", "write it"},
    {0},
};

const cli_command cmd_apply = {
    .name = "apply",
    .summary = "write a plan into your configuration files",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(apply_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .ok = "done, or there was nothing to do; with --dry-run: apply would write this diff",
    .finding = "with --dry-run: the diff is shown, but apply would refuse to write it",
};
