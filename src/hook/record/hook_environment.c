// The environment in which a program finds the hook library.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook_record.h"

static bool put(hook_variable *variables, size_t *count, const char *name, const char *value) {
  hook_variable *v = &variables[(*count)++];
  v->name = name;
  return (size_t)snprintf(v->value, sizeof v->value, "%s", value) < sizeof v->value;
}

static bool put_bytes(hook_variable *variables, size_t *count, const char *name, uint64_t bytes) {
  char text[24];
  snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
  return put(variables, count, name, bytes ? text : "");
}

// The library comes first: what is preloaded already may be a simulated card, which the library must see as the driver.
static bool put_preload(hook_variable *variables, size_t *count, const char *library) {
  const char *rest = getenv("LD_PRELOAD");
  char value[HOOK_VALUE_BYTES];
  bool has_rest = rest && *rest;
  int length =
      snprintf(value, sizeof value, "%s%s%s", library, has_rest ? ":" : "", has_rest ? rest : "");
  return (size_t)length < sizeof value && put(variables, count, "LD_PRELOAD", value);
}

plim_err hook_environment(const char *library, const char *record, const hook_options *options,
                          hook_variable *variables, size_t *count, plim_error *error) {
  *count = 0;
  if (*library != '/' || *record != '/')
    return plim_fail(error, PLIM_ERR_ARGUMENT, "%.200s is not an absolute path",
                     *library != '/' ? library : record);
  if (strpbrk(library, " :"))
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "the system cannot preload %.200s: its path contains a blank or a colon",
                     library);
  bool fits = put_preload(variables, count, library) &&
              put(variables, count, "PLIMSOLL_HOOK", record) &&
              put_bytes(variables, count, "PLIMSOLL_HOOK_CAP", options->cap_bytes) &&
              put_bytes(variables, count, "PLIMSOLL_HOOK_SPILL", options->spill_bytes) &&
              put(variables, count, "PLIMSOLL_HOOK_COLD", options->has_no_cold_rule ? "0" : "");
  if (!fits) return plim_fail(error, PLIM_ERR_ARGUMENT, "LD_PRELOAD or a path is too long");
  return PLIM_OK;
}
