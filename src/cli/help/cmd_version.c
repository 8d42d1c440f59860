#include "command.h"
#include "json.h"

static void print_json(void) {
  json_writer j = json_begin(stdout);
  json_object(&j, NULL);
  json_u64(&j, "format_version", 1);
  json_string(&j, "program", "plimsoll");
  json_string(&j, "version", PLIM_VERSION);
  json_string(&j, "license", "Apache-2.0");
  json_end(&j);
  json_finish(&j);
}

static int run(const cli_call *call) {
  if (call->common.json) print_json();
  else printf("plimsoll %s\n", PLIM_VERSION);
  return CLI_OK;
}

static const char *const description[] = {
    "Prints the version of plimsoll; with --json, also its license.",
    NULL,
};

const cli_command cmd_version = {
    .name = "version",
    .summary = "print the version",
    .run = run,
    .description = description,
};
