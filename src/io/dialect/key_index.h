// The names of a file's settings, sorted by their last part, so that a row of a table finds its settings without searching
// all of them.
#ifndef PLIM_IO_KEY_INDEX_H
#define PLIM_IO_KEY_INDEX_H

#include "key_names.h"
#include "settings.h"

typedef struct {
  char (
      *names)[PLIM_KEY_BYTES]; // of the settings, in their order, without the number of the command
  uint32_t *by_part;
  size_t count;
} plim_key_index;

// Returns false when out of memory. The caller frees the index in both cases.
bool plim_key_index_make(const plim_settings *s, plim_key_index *out);
void plim_key_index_free(plim_key_index *index);

typedef struct {
  const plim_key_index *index;
  const char *pattern;
  bool is_nested, is_everywhere;
  size_t at, end;
} plim_key_search;

// Finds the settings with a matching name, in the order of the text; SIZE_MAX when there are no more.
plim_key_search plim_key_index_search(const plim_key_index *index, const char *pattern,
                                      bool is_nested);
size_t plim_key_search_next(plim_key_search *search);

#endif
