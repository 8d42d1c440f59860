// What plimsoll knows by name: models, families, GPUs and knobs, as JSON.
#ifndef PLIM_APP_NAME_LISTS_H
#define PLIM_APP_NAME_LISTS_H

#include "catalogue.h"
#include "config.h"
#include "json_writer.h"
#include "plan.h"

// One list: one row.
typedef struct {
  const char *name;              // "models"
  void (*write)(json_writer *j); // into an open array
} name_list;

extern const name_list name_lists[];                // ends with {0}
const name_list *name_list_named(const char *name); // NULL if there is none
// The document {"format_version": 1, "models": [...]} of a name_list.
void name_list_write(json_writer *j, const void *list);

// ---- what text and JSON share -----------------------------------------------------------------

// Names of bits; a table ends with {0}.
typedef struct {
  unsigned bit;
  const char *name;
} name_bit;
extern const name_bit name_recordings[]; // PLIM_RECORDED_...: on what a family was verified
extern const name_bit name_figures[]; // PLIM_SEEN_...: which figures of a GPU have a public source

const char *name_of_dtype(plim_dtype dtype);
// Whether the model is listed, and its configuration. A row with an invalid one is not; a test builds all of them.
bool name_is_listed(const plim_catalogue_model *model, plim_config *c);
int64_t name_longest(const plim_config *c); // tokens
bool name_is_planned(plim_knob knob);       // plans may change it

#endif
