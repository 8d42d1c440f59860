#include "families.h"

#include <stdio.h>
#include <string.h>

#include "suggest.h"

enum { LIST_BYTES = 256 };

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

static plim_err refuse(const char *model_type, plim_error *error) {
  const char *names[FAMILIES];
  char list[LIST_BYTES] = "";
  size_t used = 0;
  for (size_t i = 0; i < FAMILIES && used < sizeof list; i++) {
    names[i] = plim_families[i]->model_type;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  }
  const char *close = plim_suggest(model_type, names, FAMILIES);
  if (close && !has_same_digits(close, model_type)) close = NULL;
  plim_err err = plim_fail(
      error, PLIM_ERR_UNSUPPORTED, "model_type \"%.64s\" is not supported yet%s%s%s", model_type,
      close ? "; did you mean \"" : "", close ? close : "", close ? "\"?" : "");
  plim_error_hint(
      error,
      "supported: %s. For any other model, run your own program on a simulated GPU: plimsoll "
      "simulate -- python train.py",
      list);
  return err;
}

plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error) {
  for (size_t i = 0; i < FAMILIES; i++) {
    if (strcmp(plim_families[i]->model_type, model_type) != 0) continue;
    *c = plim_families[i]->defaults;
    c->family = plim_families[i];
    return PLIM_OK;
  }
  return refuse(model_type, error);
}
