// Shared by the files of this folder.
#ifndef PLIM_CORE_CATALOGUE_IMPL_H
#define PLIM_CORE_CATALOGUE_IMPL_H

#include "catalogue.h"

typedef struct {
  const char *id;   // on the hub
  const char *name; // of the row whose configuration and dtype it has
} plim_catalogue_alias;

extern const plim_catalogue_alias plim_catalogue_aliases[];
extern const size_t plim_catalogue_alias_count;

// Fine-tunes whose base is published, but not in their name, and which may have other words than that.
extern const plim_catalogue_alias plim_catalogue_fine_tunes[];
extern const size_t plim_catalogue_fine_tune_count;

#endif
