// Well-known models: what their config.json says, so that a name is enough to plan with.
#ifndef PLIM_CORE_CATALOGUE_H
#define PLIM_CORE_CATALOGUE_H

#include "config.h"
#include "tape.h"

typedef struct {
  const char *id;      // on the Hugging Face hub: "Qwen/Qwen2.5-7B"
  const char *name;    // as people say it: "qwen2.5-7b"
  uint64_t parameters; // as published, tied weights counted once
  plim_head head;
  plim_dtype dtype;    // that transformers loads it in; PLIM_DTYPE_COUNT: not published
  const char *keys;    // "key=value ..." as in config.json: all that change memory
  bool is_unconfirmed; // not every size was found in a public source: the user is told
  const char *stored;  // the quant_method of its own checkpoint; NULL: it has none
} plim_catalogue_model;

extern const plim_catalogue_model plim_catalogue[];
extern const size_t plim_catalogue_count;

enum { PLIM_MAX_MODELS = 512 };

// By id, with or without its owner, or by name; case and what stands between words do not matter
// ("llama3.1:8b"). A chat or instruct version is found by its base model, whose shapes it has; a size may
// be missing where there is one only ("tinyllama"). NULL if there is none, or more than one.
const plim_catalogue_model *plim_catalogue_named(const char *name);

// The same, but the name must have everything that tells models apart, and so must be of one model only: nothing but
// words such as "instruct" may be missing.
const plim_catalogue_model *plim_catalogue_same(const char *name);

// The model whose name is part of this one, as the base of a fine-tune often is ("My-Llama-3.1-8B-Stories"), or that is
// known as its base: a guess that only the user can confirm. NULL if there is none.
const plim_catalogue_model *plim_catalogue_within(const char *name);

// All models that a name could stand for or begins, at most PLIM_MAX_MODELS; returns how many.
size_t plim_catalogue_candidates(const char *name,
                                 const plim_catalogue_model *out[PLIM_MAX_MODELS]);

// The closest entry's name for one that was mistyped, or NULL if none is close.
const char *plim_catalogue_suggest(const char *name);

// The family of a well-known model whose architecture is not supported, found by its name without the owner; NULL:
// not known. Call it only for names that are not in the catalogue: a few of these begin like names that are.
const char *plim_catalogue_unfollowed(const char *name);

// Whether it is one that people use, and not a model of the tests.
bool plim_catalogue_is_public(const plim_catalogue_model *model);

// Its finished configuration. A family that is not supported is refused by name.
plim_err plim_catalogue_config(const plim_catalogue_model *model, plim_config *c,
                               plim_error *error);

#endif
