// Which keyword arguments Python calls accept. A key is inserted only into a call that is known to accept it; otherwise
// the run would fail with an unexpected keyword argument.
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "project_places.h"
#include "python_code.h"

// Rows by the name of the call, in lower case, with * and ?; the first match counts. Lists are separated by commas.
// `takes` NULL: all arguments of a trainer except `lacks`. For a call without a row, nothing is known to be accepted.
static const struct {
  const char *name, *takes, *lacks;
} calls[] = {
    // accelerate 1.x: Accelerator.__init__
    {"accelerator", "gradient_accumulation_steps,mixed_precision", NULL},
    {"trainingarguments", NULL, "max_length,packing,loss_type"}, // those belong to SFTConfig
    {"*arguments", NULL, NULL},
    {"*args", NULL, NULL},
    {"loraconfig", "", NULL},
    {"*config", NULL, NULL}, // SFTConfig and similar classes, and the user's dataclasses
    {"dict", NULL, NULL},
    {"update", NULL, NULL}, // the method of a dict
};
enum { CALLS = sizeof calls / sizeof *calls };

enum { NAME_BYTES = 96 };

// The name of the call in a key, without its number: "Accelerator" of accelerate.Accelerator#2.split_batches.
static bool callee_of(const char *key, char out[NAME_BYTES]) {
  const char *end = strrchr(key, '.'), *begin = end;
  if (!end) return false;
  while (begin > key && begin[-1] != '.') begin--;
  size_t size = strcspn(begin, ".#");
  snprintf(out, NAME_BYTES, "%.*s", (int)(size < NAME_BYTES ? size : NAME_BYTES - 1), begin);
  return *out;
}

// Whether the file calls or defines something of this name.
static bool is_called(const plim_project_file *f, const char *name) {
  char call[NAME_BYTES + 1];
  snprintf(call, sizeof call, "%s(", name);
  return plim_python_has(&f->code, call);
}

static int row_of(const char *callee) {
  char name[NAME_BYTES];
  size_t size = strlen(callee);
  for (size_t i = 0; i <= size; i++) name[i] = (char)tolower((unsigned char)callee[i]);
  for (int i = 0; i < CALLS; i++)
    if (fnmatch(calls[i].name, name, FNM_NOESCAPE) == 0) return i;
  return CALLS;
}

bool plim_call_takes(const plim_project_file *f, const char *beside, const char *key) {
  char callee[NAME_BYTES];
  bool is_python = f->settings.format == PLIM_FORMAT_PYTHON;
  if (!is_python || !callee_of(beside, callee) || !is_called(f, callee))
    return true; // a dict accepts every key
  int row = row_of(callee);
  if (row == CALLS) return false;
  return calls[row].takes ? plim_is_listed(calls[row].takes, key)
                          : !plim_is_listed(calls[row].lacks, key);
}

void plim_call_refuses(const char *beside, const char *key, char *why, size_t size) {
  char callee[NAME_BYTES] = "";
  callee_of(beside, callee);
  snprintf(why, size, "%s(...) may not accept an argument %.80s", callee, key);
}
