// The hook library in a run: its record, the variables for the program, and what it did.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hook_record.h"
#include "machine.h"
#include "run_impl.h"
#include "units.h"

// Half of what the host has left, if the user gives no limit.
static uint64_t spill_limit(uint64_t asked) {
  plim_machine machine;
  if (asked != RUN_SPILL_DEFAULT) return asked;
  plim_machine_read("", &machine);
  uint64_t room = plim_machine_room(&machine);
  return room == PLIM_UNKNOWN ? 0 : room / 2;
}

plim_err run_hook_begin(run *r, plim_error *error) {
  const run_options *o = &r->options;
  char library[PLIM_PATH_BYTES], real[PLIM_PATH_BYTES];
  hook_variable *variables = calloc(HOOK_VARIABLES, sizeof *variables);
  hook_options options = {.cap_bytes = o->cap_bytes, .spill_bytes = spill_limit(o->spill_bytes)};
  if (!variables) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = PLIM_OK;
  if (!plim_path_join(library, r->modules, "libplimsoll_hook.so") || !realpath(library, real) ||
      !plim_path_join(r->hook_path, r->folder.path, "hook"))
    err = plim_fail(error, PLIM_ERR_IO, "libplimsoll_hook.so is not in %.200s", r->modules);
  if (!err) err = hook_record_create(r->hook_path, error);
  size_t count = 0;
  if (!err) err = hook_environment(real, r->hook_path, &options, variables, &count, error);
  for (size_t i = 0; !err && i < count; i++)
    if (asprintf(&r->hook_variables[i], "%s=%s", variables[i].name, variables[i].value) < 0) {
      r->hook_variables[i] = NULL;
      err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
    }
  free(variables);
  if (!err) r->hook = hook_record_map(r->hook_path);
  if (!err && !r->hook) err = plim_fail(error, PLIM_ERR_IO, "cannot map %.200s", r->hook_path);
  return err;
}

static void sum(const hook_record *record, uint64_t *spilled, uint64_t *refused, uint64_t *peak) {
  *spilled = *refused = *peak = 0;
  for (uint32_t i = 0; i < hook_record_processes(record); i++)
    for (int d = 0; d < HOOK_MAX_DEVICES; d++) {
      const hook_holding *h = &record->processes[i].devices[d];
      *spilled += h->peak_spilled_bytes;
      *refused += h->refusals;
      if (h->peak_bytes > *peak) *peak = h->peak_bytes;
    }
}

// A spill costs time in every step, so it is announced as soon as it happens.
void run_hook_look(run *r) {
  uint64_t spilled, refused, peak;
  if (!r->hook || r->has_spilled) return;
  sum(r->hook, &spilled, &refused, &peak);
  if (!spilled) return;
  r->has_spilled = true;
  run_tell(r, RUN_WARNING,
           "SPILLED: the GPU is full, so %s that belong on it are in host memory; steps that use "
           "this memory are slower",
           units_bytes(spilled).text);
}

void run_hook_end(run *r) {
  uint64_t spilled, refused, peak;
  if (r->hook) {
    sum(r->hook, &spilled, &refused, &peak);
    if (peak)
      run_tell(
          r, RUN_DETAIL,
          "hook library: one process used at most %s of GPU memory; %s request%s failed%s; %s were "
          "spilled to host memory",
          units_bytes(peak).text, units_count(refused).text, refused == 1 ? "" : "s",
          refused ? " (PyTorch then releases its cache and asks again)" : "",
          units_bytes(spilled).text);
    hook_record_unmap(r->hook);
  }
  r->hook = NULL;
  for (size_t i = 0; i < HOOK_VARIABLES; i++) free(r->hook_variables[i]);
  if (*r->hook_path) unlink(r->hook_path);
}
