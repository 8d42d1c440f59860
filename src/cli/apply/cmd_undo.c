// plimsoll undo: undoes the last apply.
#include <stdio.h>
#include <stdlib.h>

#include "apply_report.h"
#include "changeset.h"
#include "cli_alloc.h"
#include "command.h"
#include "term.h"

typedef struct {
  bool force, outside;
} undo_args;

// What to say when no file was restored: the interrupted call was all there was to undo, or there was nothing.
static void print_nothing_restored(const plim_changes *earlier) {
  char *text = earlier->count
                   ? apply_describe_earlier(earlier)
                   : cli_format("nothing to undo: no plimsoll apply is recorded in this folder");
  term_say(stdout, text, 0, 2);
  free(text);
}

static int run_undo(const cli_call *call) {
  const undo_args *args = call->args;
  plim_changeset_result result = {0};
  plim_error error = {0};
  plim_changeset_options how = {.force = args->force, .outside = args->outside};
  plim_err err = plim_changeset_undo(".", &how, &result, &error);
  bool is_all = !err && !result.done.count && !call->common.json;
  if (is_all) print_nothing_restored(&result.earlier);
  else apply_print_earlier(&result.earlier);
  if (!err) apply_print_done(&result.done, call->common.json);
  if (!err) apply_say_if_unseen("the files were restored");
  plim_changeset_result_clear(&result);
  return err ? cli_report(&error, NULL) : CLI_OK;
}

static const cli_option undo_options[] = {
    {"force", 0, NULL, CLI_FLAG, offsetof(undo_args, force),
     "restore changed files too (your version is kept as a backup); skip files whose backup is "
     "lost",
     NULL},
    {"outside", 0, NULL, CLI_FLAG, offsetof(undo_args, outside),
     "also restore files outside the current folder; only if you applied that plan yourself", NULL},
    {0},
};

static const char *const undo_description[] = {
    "Reverts the last plimsoll apply in this folder: every file is restored byte for byte. Run it "
    "again to revert the apply before that one.",
    NULL,
};

const cli_command cmd_undo = {
    .name = "undo",
    .summary = "revert the last apply",
    .options = undo_options,
    .args_size = sizeof(undo_args),
    .run = run_undo,
    .description = undo_description,
    .ok = "done, or there was nothing to undo",
};
