// Well-known models: what their config.json says, so that a name is enough to plan with.
#ifndef PLIM_CORE_CATALOGUE_H
#define PLIM_CORE_CATALOGUE_H

#include "config.h"

typedef struct {
  const char *id;      // on the Hugging Face hub: "Qwen/Qwen2.5-7B"
  const char *name;    // as people say it: "qwen2.5-7b"
  uint64_t parameters; // as published, tied weights counted once
  plim_head head;
  const char *keys; // "key=value ..." as in config.json: all that change memory
} plim_catalogue_model;

extern const plim_catalogue_model plim_catalogue[];
extern const size_t plim_catalogue_count;

// By id, with or without its owner, or by name; case does not matter, and a chat or instruct version
// is found by its base model, whose shapes it has. NULL if there is none.
const plim_catalogue_model *plim_catalogue_named(const char *name);

// The closest entry's name for one that was mistyped, or NULL if none is close.
const char *plim_catalogue_suggest(const char *name);

// Its configuration, finished. A family that is no program on the tape is refused by name.
plim_err plim_catalogue_config(const plim_catalogue_model *model, plim_config *c,
                               plim_error *error);

#endif
