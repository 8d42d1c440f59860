// plimsoll watch: cards, processes and runs, as they are now.
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli_alloc.h"
#include "command.h"
#include "endpoint.h"
#include "units.h"
#include "watch_show.h"

#define SILENT_SECONDS                                                                             \
  5 // nvidia-smi takes two or three on a machine with many cards that are asleep
#define SHORTEST_SECONDS 0.1
#define LONGEST_SECONDS 3600

typedef struct {
  bool once;
  double interval_seconds;
  uint64_t count;
  const char *prometheus;
} watch_args;

static const watch_args defaults = {.interval_seconds = 1, .count = PLIM_UNKNOWN};

#define AT(field) offsetof(watch_args, field)

// ---- what was typed ---------------------------------------------------------------------------------

// The port of --prometheus; an address other than this machine's own is refused.
static plim_err read_port(const char *text, uint16_t *port, plim_error *error) {
  uint64_t value;
  if (!text) return *port = 0, PLIM_OK;
  const char *colon = strrchr(text, ':');
  size_t host = colon ? (size_t)(colon - text) : 0;
  bool is_local = !colon || (host == 9 && strncmp(text, "127.0.0.1", 9) == 0) ||
                  (host == 9 && strncmp(text, "localhost", 9) == 0);
  if (!is_local) {
    plim_fail(error, PLIM_ERR_ARGUMENT,
              "--prometheus: %s is not allowed; the endpoint is for this machine only (127.0.0.1), "
              "because it has no password",
              text);
    plim_error_hint(error,
                    "--prometheus %s; to read it from elsewhere, forward the port with ssh -L",
                    colon + 1);
    return PLIM_ERR_ARGUMENT;
  }
  plim_err err = units_parse_u64(colon ? colon + 1 : text, &value, NULL);
  if (err || value > UINT16_MAX) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "--prometheus: %s is not a port", text);
    plim_error_hint(error, "--prometheus 9500, or without a number to use any free port");
    return PLIM_ERR_ARGUMENT;
  }
  *port = (uint16_t)value;
  return PLIM_OK;
}

static plim_err check_args(const watch_args *args, plim_error *error) {
  bool is_allowed =
      args->interval_seconds >= SHORTEST_SECONDS && args->interval_seconds <= LONGEST_SECONDS;
  if (!is_allowed)
    return plim_fail(error, PLIM_ERR_ARGUMENT, "--interval must be from 0.1 to 3600 seconds");
  if (!args->count) return plim_fail(error, PLIM_ERR_ARGUMENT, "--count must be at least 1");
  return PLIM_OK;
}

// Whether the terminal shows UTF-8. Only the characters follow the locale, not the numbers.
static bool shows_utf8(void) {
  return setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

// ---- the ways to watch ------------------------------------------------------------------------------

static void wait_seconds(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

void watch_take_all(watch *w, double seconds) {
  watch_take(w, seconds);
  if (w->has_no_memory) cli_out_of_memory();
}

static int show_once(watch *w, bool json, bool is_utf8) {
  watch_take_all(w, SILENT_SECONDS);
  if (json) watch_print_json(w);
  else watch_print_text(w, is_utf8);
  return watch_has_warning(w) ? CLI_FINDING : CLI_OK;
}

static int stream_json(watch *w, const watch_args *args) {
  for (uint64_t i = 0; i < args->count && !ferror(stdout); i++) {
    if (i) wait_seconds(args->interval_seconds);
    watch_take_all(w, i ? args->interval_seconds : SILENT_SECONDS);
    watch_print_json(w);
  }
  return CLI_OK;
}

static int serve(watch *w, const watch_args *args, bool json) {
  plim_error error;
  endpoint *e;
  uint16_t port;
  if (read_port(args->prometheus, &port, &error)) return cli_report(&error, NULL);
  if (endpoint_open(port, &e, &error)) {
    plim_error_hint(&error, "--prometheus 0 chooses a free port");
    return cli_report(&error, NULL);
  }
  fprintf(json ? stderr : stdout, "serving http://127.0.0.1:%u/metrics; Ctrl-C ends it\n",
          endpoint_port(e));
  fflush(stdout);
  for (uint64_t i = 0; i < args->count; i++) {
    watch_take_all(w, i ? args->interval_seconds : SILENT_SECONDS);
    if (json) watch_print_json(w);
    endpoint_document metrics = {.path = "/metrics",
                                 .type = "text/plain; version=0.0.4",
                                 .hint = "the metrics are at /metrics\n"};
    char *text = watch_metrics(w, &metrics.size);
    metrics.body = text;
    endpoint_serve(e, args->interval_seconds, &metrics);
    free(text);
  }
  endpoint_close(e);
  return CLI_OK;
}

static int run(const cli_call *call) {
  const watch_args *args = call->args;
  const char *root = getenv("PLIMSOLL_ROOT");
  watch_options options = {.root = root ? root : "", .silent_seconds = SILENT_SECONDS};
  plim_error error = {0};
  watch *w = NULL;
  bool is_utf8 = shows_utf8(), json = call->common.json;
  bool is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !term_is_dumb();
  if (check_args(args, &error) || watch_new(&options, &w, &error)) return cli_report(&error, NULL);
  int status;
  if (cli_was_given(call, AT(prometheus))) status = serve(w, args, json);
  else if (args->once) status = show_once(w, json, is_utf8);
  else if (json) status = stream_json(w, args);
  else if (is_terminal) status = watch_screen(w, args->interval_seconds, is_utf8);
  else status = show_once(w, false, is_utf8);
  watch_free(w);
  return status;
}

// ---- its row ------------------------------------------------------------------------------------------------

static const cli_option options[] = {
    {"once", '1', NULL, CLI_FLAG, AT(once), "print one sample and exit", NULL},
    {"interval", 'n', "SECONDS", CLI_NUMBER, AT(interval_seconds),
     "time between samples (default: 1)", NULL},
    {"count", 0, "N", CLI_UINT, AT(count), "with --json or --prometheus: stop after N samples",
     NULL},
    {"prometheus", 0, "[PORT]", CLI_STRING, AT(prometheus),
     "serve the samples to Prometheus on 127.0.0.1; without PORT, or with 0, on any free port, "
     "which "
     "is printed",
     NULL},
    {0},
};

static const char *const description[] = {
    "Shows the GPUs of this machine with their memory, its history, how busy they are and which "
    "processes use them; host memory; and every training that runs under plimsoll run, with its "
    "step, peak, headroom and trend. A value that the driver does not report is shown as unknown. "
    "If "
    "the driver does not answer at all, the rest is still shown.",
    "It marks warning signs: memory that grows, with the step at which it will be full; memory "
    "that "
    "rises with longer samples; peaks that swing between steps; memory or GPUs that are used less "
    "than half.",
    "Keys: q quits, the arrow and page keys scroll, p pauses, h explains the view. If the output "
    "is not a terminal, or TERM is dumb, one sample is printed, as with --once. With --json, each "
    "sample is one line.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll watch", "watch GPUs and runs"},
    {"plimsoll watch --once", "print the present state"},
    {"plimsoll watch --json --count 60", "a minute as JSON, one line per second"},
    {"plimsoll watch --prometheus 9500", "serve http://127.0.0.1:9500/metrics"},
    {0},
};

const cli_command cmd_watch = {
    .name = "watch",
    .summary = "watch GPUs and training runs",
    .options = options,
    .args_size = sizeof(watch_args),
    .defaults = &defaults,
    .run = run,
    .description = description,
    .examples = examples,
    .finding = "with --once: a run will, or may, run out of memory",
};
