// plimsoll runs: lists the runs that `plimsoll run` has started, and shows one.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"
#include "injection.h"
#include "runs_show.h"

typedef struct {
  uint64_t most;
  picture_args pictures;
} runs_args;

static const runs_args defaults = {.most = 20};

static plim_err read_number(const char *text, uint64_t *id, plim_error *error) {
  if (units_parse_u64(text, id, error) == PLIM_OK && *id <= INT64_MAX) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.40s is not the number of a run", text);
  plim_error_hint(error, "to list the runs: plimsoll runs");
  return err;
}

// Reads "", "show N" and "N".
static plim_err wanted(const cli_call *call, bool *is_one, uint64_t *id, plim_error *error) {
  size_t count = call->words.len;
  const char *const *words = call->words.at;
  bool has_show = count && strcmp(words[0], "show") == 0;
  *is_one = count > 0;
  if (!count) return PLIM_OK;
  if (count == 1u + has_show) return read_number(words[has_show], id, error);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "runs takes the number of one run");
  plim_error_hint(error, "to list the runs: plimsoll runs; to show one: plimsoll runs show 3");
  return err;
}

// Nothing was recorded yet if there is no file, or an empty one, which a run is about to fill.
static plim_err open_history(history **out, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  *out = NULL;
  struct stat file;
  plim_err err = simulate_state_path("runs.sqlite", path, error);
  if (err) return err;
  bool is_missing = stat(path, &file) ? errno == ENOENT || errno == ENOTDIR : !file.st_size;
  return is_missing ? PLIM_OK : history_open(path, false, out, error);
}

static plim_err show_list(history *h, const cli_call *call, history_found *found,
                          plim_error *error) {
  const runs_args *args = call->args;
  if (args->pictures.svg || args->pictures.html) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "only one run can be drawn");
    plim_error_hint(error, "plimsoll runs show 3 --svg memory.svg");
    return err;
  }
  if (!args->most) return plim_fail(error, PLIM_ERR_ARGUMENT, "--most must be at least 1");
  plim_err err = h ? history_list(h, args->most, found, error) : PLIM_OK;
  if (err) return err;
  if (call->common.json) runs_print_list_json(found);
  else runs_print_list(found);
  return PLIM_OK;
}

static plim_err show_one(history *h, const cli_call *call, uint64_t id, history_found *found,
                         plim_error *error) {
  const runs_args *args = call->args;
  plim_err err =
      h ? history_read(h, (int64_t)id, found, error)
        : plim_fail(error, PLIM_ERR_ARGUMENT, "there is no run %llu", (unsigned long long)id);
  if (err == PLIM_ERR_ARGUMENT) plim_error_hint(error, "to list the runs: plimsoll runs");
  if (!err) err = picture_draw(&args->pictures, runs_draw, found, error);
  if (err) return err;
  if (call->common.json) runs_print_one_json(found);
  else runs_print_one(found);
  return PLIM_OK;
}

static int run(const cli_call *call) {
  const runs_args *args = call->args;
  plim_error error = {0};
  history *h = NULL;
  history_found found = {0};
  bool is_one = false;
  uint64_t id = 0;
  plim_err err = wanted(call, &is_one, &id, &error);
  if (!err) err = picture_check(&args->pictures, NULL, NULL, &error);
  if (!err) err = open_history(&h, &error);
  if (!err)
    err = is_one ? show_one(h, call, id, &found, &error) : show_list(h, call, &found, &error);
  history_found_clear(&found);
  history_close(h);
  return err ? cli_report(&error, NULL) : CLI_OK;
}

// ---- its row ----------------------------------------------------------------------------------------

#define AT(field) offsetof(runs_args, field)
#define PICTURES_AT(field) offsetof(runs_args, pictures.field)
static const cli_option options[] = {
    {"most", 'n', "N", CLI_UINT, AT(most), "list at most N runs (default: 20)", NULL},
    PICTURE_OPTIONS(PICTURES_AT),
    {0},
};

static const cli_positional positionals[] = {
    {"RUN", "the number of a run to show, with or without the word show before it", CLI_STRING, 0,
     2, NULL},
    {0},
};

static const char *const description[] = {
    "Lists the newest trainings that were started with `plimsoll run`: when each began, how long "
    "it took, how it ended, its optimizer steps and the most GPU memory that was in use.",
    "With the number of a run it shows that run and what happened in it: warnings, failures and "
    "recoveries. --svg and --html draw its memory over time. If it had several ranks, the one that "
    "used the most memory is drawn.",
    "The record is in $XDG_STATE_HOME/plimsoll/runs.sqlite (~/.local/state by default).",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll runs", "list the newest runs"},
    {"plimsoll runs show 3", "what happened in run 3"},
    {"plimsoll runs show 3 --svg memory.svg", "draw its memory over time"},
    {0},
};

const cli_command cmd_runs = {
    .name = "runs",
    .summary = "list earlier runs, and show one",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(runs_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
};
