// plimsoll undo: undoes the last apply.
#include <stdio.h>

#include "apply_report.h"
#include "changeset.h"
#include "command.h"

typedef struct {
  bool force, outside;
} undo_args;

static int run_undo(const cli_call *call) {
  const undo_args *args = call->args;
  plim_changeset_result result = {0};
  plim_error error = {0};
  plim_changeset_options how = {.force = args->force, .outside = args->outside};
  plim_err err = plim_changeset_undo(".", &how, &result, &error);
  apply_print_earlier(&result.earlier);
  if (!err) apply_print_done(&result.done, "restored", call->common.json);
  if (!err && !result.done.count && !call->common.json)
    printf("%s\n", result.earlier.count ? "the interrupted change was rolled back"
                                        : "there is nothing to undo");
  if (!err) apply_say_if_unseen("the files were restored");
  plim_changeset_result_clear(&result);
  return err ? cli_report(&error, NULL) : CLI_OK;
}

static const cli_option undo_options[] = {
    {"force", 0, NULL, CLI_FLAG, offsetof(undo_args, force),
     "also restore files that have changed since; their current contents are kept as a backup",
     NULL},
    {"outside", 0, NULL, CLI_FLAG, offsetof(undo_args, outside),
     "also restore files outside this folder; only if you applied that plan yourself", NULL},
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
