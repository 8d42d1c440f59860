// dump_hook LIBRARY OUT [--cap BYTES] [--spill BYTES] [--no-cold] -- COMMAND...: runs a command with the hook library and
// writes what the record has to the file OUT, as JSON. For tests and measurements; `plimsoll run --hook` is for people.
// The exit status is the command's; 125 if it cannot be started.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hook_record.h"

static const char *const kinds[HOOK_EVENT_COUNT] = {
    [HOOK_EVENT_ALLOC] = "alloc",     [HOOK_EVENT_FREE] = "free",
    [HOOK_EVENT_REFUSED] = "refused", [HOOK_EVENT_SPILL] = "spill",
    [HOOK_EVENT_UNSPILL] = "unspill", [HOOK_EVENT_MANAGED] = "managed",
    [HOOK_EVENT_GRAPH] = "graph",     [HOOK_EVENT_MANAGED_FREE] = "managed_free",
    [HOOK_EVENT_PHASE] = "phase",
};

static void write_processes(FILE *out, const hook_record *record) {
  const char *comma = "";
  for (uint32_t i = 0; i < hook_record_processes(record); i++)
    for (int device = 0; device < HOOK_MAX_DEVICES; device++) {
      const hook_holding *h = &record->processes[i].devices[device];
      if (!h->peak_bytes && !h->refusals && !h->spills) continue;
      fprintf(out,
              "%s\n{\"pid\": %d, \"device\": %d, \"current_bytes\": %llu, \"peak_bytes\": %llu, "
              "\"refusals\": %llu, \"spills\": %llu, \"spilled_bytes\": %llu, "
              "\"peak_spilled_bytes\": %llu}",
              comma, record->processes[i].pid, device, (unsigned long long)h->current_bytes,
              (unsigned long long)h->peak_bytes, (unsigned long long)h->refusals,
              (unsigned long long)h->spills, (unsigned long long)h->spilled_bytes,
              (unsigned long long)h->peak_spilled_bytes);
      comma = ",";
    }
}

static uint64_t write_events(FILE *out, const hook_record *record) {
  static hook_event events[256];
  uint64_t next = 0, lost = 0;
  const char *comma = "";
  size_t count;
  while ((count = hook_record_read(record, &next, &lost, events, 256)))
    for (size_t i = 0; i < count; i++) {
      fprintf(out, "%s\n{\"kind\": \"%s\", \"bytes\": %llu, \"device\": %u, \"pid\": %d}", comma,
              kinds[events[i].kind], (unsigned long long)events[i].bytes, events[i].device,
              events[i].pid);
      comma = ",";
    }
  return lost;
}

static bool write_record(const char *path, const hook_record *record) {
  FILE *out = fopen(path, "w");
  if (!out) return false;
  fprintf(out, "{\"processes\": [");
  write_processes(out, record);
  fprintf(out, "],\n\"events\": [");
  uint64_t lost = write_events(out, record);
  fprintf(out, "],\n\"lost\": %llu}\n", (unsigned long long)lost);
  return fclose(out) == 0;
}

static int run(char **command, const char *library, const char *path, const hook_options *options) {
  hook_variable variables[HOOK_VARIABLES];
  size_t count;
  plim_error error;
  int status = -1;
  if (hook_environment(library, path, options, variables, &count, &error)) return 125;
  pid_t child = fork();
  if (child == 0) {
    for (size_t i = 0; i < count; i++) setenv(variables[i].name, variables[i].value, 1);
    execvp(command[0], command);
    _exit(125);
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv) {
  hook_options options = {0};
  plim_error error;
  char path[4096];
  int at = 3;
  for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
    if (strcmp(argv[at], "--no-cold") == 0) options.has_no_cold_rule = true;
    else if (strcmp(argv[at], "--cap") == 0 && at + 1 < argc)
      options.cap_bytes = strtoull(argv[++at], NULL, 10);
    else if (strcmp(argv[at], "--spill") == 0 && at + 1 < argc)
      options.spill_bytes = strtoull(argv[++at], NULL, 10);
    else return 125;
  }
  if (at + 1 >= argc) return 125;
  snprintf(path, sizeof path, "%s.record", argv[2]);
  unlink(path);
  if (hook_record_create(path, &error)) return 125;
  hook_record *record = hook_record_map(path);
  char *library = realpath(argv[1], NULL), *whole = realpath(path, NULL);
  int status = library && whole ? run(argv + at + 1, library, whole, &options) : 125;
  free(library);
  free(whole);
  bool is_written = record && write_record(argv[2], record);
  hook_record_unmap(record);
  unlink(path);
  return is_written ? status : 125;
}
