#include "families.h"

#include <string.h>

#include "suggest.h"

#define ADDRESS(name) &plim_family_##name,
const plim_family *const plim_families[] = {PLIM_FAMILIES(ADDRESS)};
enum { FAMILIES = sizeof plim_families / sizeof *plim_families };
const size_t plim_family_count = FAMILIES;

// gemma and gemma2 are two families, not one and a slip.
static bool has_same_digits(const char *a, const char *b) {
  static const char digits[] = "0123456789";
  for (;; a++, b++) {
    a += strcspn(a, digits), b += strcspn(b, digits);
    if (*a != *b || !*a) return *a == *b;
  }
}

// Families of transformers that differ in one letter from one that is supported.
static bool is_no_slip(const char *model_type) {
  static const char *const others[] = {"jamba", "mamba", "zamba"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(model_type, others[i]) == 0) return true;
  return false;
}

static plim_err refuse(const char *model_type, plim_error *error) {
  const char *names[FAMILIES];
  for (size_t i = 0; i < FAMILIES; i++) names[i] = plim_families[i]->model_type;
  const char *close = plim_suggest(model_type, names, FAMILIES);
  if (close && (!has_same_digits(close, model_type) || is_no_slip(model_type))) close = NULL;
  plim_err err = plim_fail(
      error, PLIM_ERR_UNSUPPORTED, "model_type \"%.64s\" is not supported yet%s%s%s", model_type,
      close ? "; did you mean \"" : "", close ? close : "", close ? "\"?" : "");
  plim_error_hint(error,
                  "plimsoll help families lists the supported ones; for any other, run your own "
                  "program on a simulated GPU: plimsoll simulate -- python train.py");
  return err;
}

static const plim_family *family_named(const char *model_type, size_t length) {
  for (size_t i = 0; i < FAMILIES; i++) {
    const char *name = plim_families[i]->model_type;
    if (strlen(name) == length && strncmp(name, model_type, length) == 0) return plim_families[i];
  }
  return NULL;
}

// Defaults of the language model, with what the configuration around it decides.
static void set_text(plim_config *c, const plim_family *outer, const plim_family *text) {
  *c = text->defaults;
  c->family = text;
  c->outer = outer;
  c->vision = outer->defaults.vision;
  c->audio = outer->defaults.audio;
  c->merged_patches = outer->defaults.merged_patches;
  c->ties_embeddings = outer->defaults.ties_embeddings;
  c->has_projector_bias = outer->defaults.has_projector_bias;
  c->has_projector_norm = outer->defaults.has_projector_norm;
  c->projector_width = outer->defaults.projector_width;
  c->shrinking = outer->defaults.shrinking;
}

plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error) {
  const plim_family *f = family_named(model_type, strlen(model_type));
  if (!f) return refuse(model_type, error);
  if (f->text_types) {
    set_text(c, f, family_named(f->text_types, strcspn(f->text_types, ",")));
    return PLIM_OK;
  }
  *c = f->defaults;
  c->family = f;
  return PLIM_OK;
}

plim_err plim_config_init_text(plim_config *c, const char *model_type, plim_error *error) {
  for (const char *at = c->outer->text_types; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    if (strlen(model_type) != length || strncmp(at, model_type, length) != 0) continue;
    set_text(c, c->outer, family_named(at, length));
    return PLIM_OK;
  }
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "%s with a language model of model_type \"%.64s\" is not supported yet",
                           c->outer->model_type, model_type);
  plim_error_hint(error, "supported: %s", c->outer->text_types);
  return err;
}
