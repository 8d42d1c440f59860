#include "command.h"
#include "json_writer.h"

static void print_json(void) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_string(&j, "program", "plimsoll");
  jsonw_string(&j, "version", PLIM_VERSION);
  jsonw_string(&j, "license", "Apache-2.0");
  jsonw_end(&j);
  jsonw_finish(&j);
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
