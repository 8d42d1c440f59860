// A page's files are copies that nobody changes, so no change of theirs was ever interrupted.
#include "changeset.h"

plim_err plim_changeset_look(const char *root, plim_changes *out, plim_error *error) {
  (void)root, (void)error;
  *out = (plim_changes){0};
  return PLIM_OK;
}

void plim_changes_clear(plim_changes *changes) { *changes = (plim_changes){0}; }
