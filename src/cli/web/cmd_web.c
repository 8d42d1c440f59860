// plimsoll web: serves the page to a browser of this machine.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "disk.h"
#include "endpoint.h"
#include "text_file.h"

typedef struct {
  uint64_t port;
} web_args;

static const web_args defaults = {.port = 0};

// ---- the page ---------------------------------------------------------------------------------------

// Where the page is, from the program's folder: in a build, beside it, in an installation.
static const char *const places[] = {"../plimsoll.html", "plimsoll.html",
                                     "../share/plimsoll/plimsoll.html"};

static plim_err find_page(char path[PLIM_PATH_BYTES], plim_error *error) {
  char program[PLIM_PATH_BYTES];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) return plim_fail(error, PLIM_ERR_IO, "cannot read /proc/self/exe");
  program[length] = 0;
  *strrchr(program, '/') = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (plim_path_join(path, program, places[i]) && plim_is_file(path)) return PLIM_OK;
  plim_fail(error, PLIM_ERR_IO, "plimsoll.html, the page, is not beside the program in %.200s",
            program);
  plim_error_hint(error, "build it with make web in plimsoll's source folder; make install then "
                         "installs it too");
  return PLIM_ERR_IO;
}

// The caller frees *text.
static plim_err read_page(char **text, size_t *size, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  if (find_page(path, error)) return error->code;
  int reason = plim_disk_read_file(path, text, size);
  if (!reason) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_IO, "cannot read %s: %s", path, strerror(reason));
}

// ---- serving ----------------------------------------------------------------------------------------

static plim_err open_port(uint64_t port, endpoint **e, plim_error *error) {
  if (port > UINT16_MAX) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--port: %llu is not a port", (unsigned long long)port);
    plim_error_hint(error, "a number from 1 to 65535; without --port, any free port is used");
    return PLIM_ERR_ARGUMENT;
  }
  plim_err err = endpoint_open((uint16_t)port, e, error);
  if (err) plim_error_hint(error, "without --port, any free port is used");
  return err;
}

static int run(const cli_call *call) {
  const web_args *args = call->args;
  plim_error error = {0};
  char *text = NULL;
  size_t size;
  endpoint *e;
  if (read_page(&text, &size, &error) || open_port(args->port, &e, &error)) {
    free(text);
    return cli_report(&error, NULL);
  }
  endpoint_document page = {"/", "text/html", "the page is at /\n", text, size};
  if (call->common.json)
    printf("{\"format_version\": 1, \"url\": \"http://127.0.0.1:%u/\"}\n", endpoint_port(e));
  else
    printf("http://127.0.0.1:%u/\nserving the page to this machine; Ctrl-C ends it\n",
           endpoint_port(e));
  fflush(stdout);
  while (true) endpoint_serve(e, 3600, &page);
}

// ---- its row ------------------------------------------------------------------------------------------------

static const cli_option options[] = {
    {"port", 'p', "N", CLI_UINT, offsetof(web_args, port),
     "the port to listen on (default: any free one)", NULL},
    {0},
};

static const char *const description[] = {
    "Serves a web page on 127.0.0.1, for this machine only, and prints its address. The page shows "
    "how the memory of a training changes while you change its settings, finds settings that fit, "
    "and shows what is in a memory snapshot. It computes everything in the browser: what you type "
    "or open there is sent nowhere.",
    "The page is one file, plimsoll.html. It also works without this command: open the file in a "
    "browser.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll web", "serve the page on any free port and print its address"},
    {"plimsoll web --port 8600", "serve http://127.0.0.1:8600/"},
    {0},
};

const cli_command cmd_web = {
    .name = "web",
    .summary = "serve a web page that shows estimates, plans and snapshots",
    .options = options,
    .args_size = sizeof(web_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
};
