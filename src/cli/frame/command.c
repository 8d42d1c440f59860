#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "help.h"
#include "suggest.h"
#include "term.h"

static const cli_command *const *all = (const cli_command *const[]){NULL};

void cli_set_commands(const cli_command *const *commands) { all = commands; }
const cli_command *const *cli_commands(void) { return all; }

const char **cli_program_words(const cli_call *call) {
  const char **words = cli_alloc((call->program.len + 1) * sizeof *words);
  memcpy(words, call->program.at, call->program.len * sizeof *words);
  return words;
}

typedef struct {
  bool version;
} program_args;

static const cli_option program_options[] = {
    {"version", 'V', NULL, CLI_FLAG, offsetof(program_args, version), "print the version", NULL},
    {0},
};

static const char *const program_description[] = {
    "Plimsoll makes deep-learning training fit in GPU memory. It predicts how much memory a run "
    "needs, finds the fastest settings that fit, writes them into your files, and explains memory "
    "snapshots that PyTorch recorded.",
    "Everything is computed on this machine. Plimsoll sends nothing over the network unless you "
    "type --fetch or --notify.",
    NULL,
};

const cli_command cli_program = {
    .summary = "make deep-learning training fit in GPU memory",
    .options = program_options,
    .args_size = sizeof(program_args),
    .description = program_description,
    .finding = "a finding: the run does not fit, or there is something to fix",
};

const cli_command *cli_find(const char *name) {
  for (size_t i = 0; all[i]; i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  return NULL;
}

const char *cli_nearest(const char *name) {
  enum { MOST = 32 };
  const char *names[MOST];
  size_t count = 0;
  for (; all[count] && count < MOST; count++) names[count] = all[count]->name;
  return plim_suggest(name, names, count);
}

// ---- dispatch -----------------------------------------------------------------------------------

// Whether --json was given. This is needed before parsing, because a parse error must be JSON too.
static bool wants_json(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--json") == 0) return true;
  return false;
}

static int fail_usage(const cli_usage *usage) {
  return cli_report(&usage->error, *usage->source ? usage->source : NULL);
}

static int fail_command(const char *name) {
  plim_error error;
  const char *near = cli_nearest(name);
  plim_fail(&error, PLIM_ERR_ARGUMENT, "unknown command %s", name);
  if (near) plim_error_hint(&error, "did you mean plimsoll %s?", near);
  else plim_error_hint(&error, "to list the commands: plimsoll -h");
  return cli_report(&error, NULL);
}

static int fail_no_command(bool json) {
  if (!json) {
    help_print(stderr, &cli_program, HELP_SHORT);
    return CLI_ERROR;
  }
  plim_error error;
  plim_fail(&error, PLIM_ERR_ARGUMENT, "no command was given");
  plim_error_hint(&error, "to list the commands: plimsoll -h");
  return cli_report(&error, NULL);
}

// Prints the help if it was requested; false if not.
static bool gave_help(const cli_call *call) {
  const cli_common *common = &call->common;
  if (!common->short_help && !common->full_help) return false;
  if (common->json) help_print_json(stdout, call->command);
  else help_print(stdout, call->command, common->full_help ? HELP_FULL : HELP_SHORT);
  return true;
}

// Adds common options that were typed before the command.
static void add_common(cli_common *to, const cli_common *before) {
  to->json |= before->json;
  if (to->color == TERM_AUTO) to->color = before->color;
}

static int run_command(const char *name, int argc, char **argv, int first,
                       const cli_common *before) {
  const cli_command *command = cli_find(name);
  if (!command) return fail_command(name);
  cli_call call = {.command = command, .common = *before};
  if (gave_help(&call)) return CLI_OK; // plimsoll -h replay
  cli_usage usage;
  int status = CLI_OK;
  bool ok = cli_parse(command, argc, argv, first, false, NULL, &call, &usage);
  add_common(&call.common, before);
  term_set_color((term_when)call.common.color);
  if (!ok) status = fail_usage(&usage);
  else if (!gave_help(&call)) status = command->run(&call);
  cli_call_clear(&call);
  return status;
}

static int run_version(const cli_call *call) {
  cli_call version = {.command = cli_find("version"), .common = call->common};
  return version.command ? version.command->run(&version) : CLI_ERROR;
}

static int dispatch(int argc, char **argv) {
  cli_call call;
  cli_usage usage;
  int next, status = CLI_OK;
  bool ok = cli_parse(&cli_program, argc, argv, 1, true, &next, &call, &usage);
  term_set_color((term_when)call.common.color);
  if (!ok) status = fail_usage(&usage);
  else if (((const program_args *)call.args)->version) status = run_version(&call);
  else if (next < argc) status = run_command(argv[next], argc, argv, next + 1, &call.common);
  else if (!gave_help(&call)) status = fail_no_command(call.common.json);
  cli_call_clear(&call);
  return status;
}

int cli_main(int argc, char **argv) {
  cli_report_as_json(wants_json(argc, argv));
  return cli_finish_output(dispatch(argc, argv));
}
