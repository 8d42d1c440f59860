#include "key_index.h"

#include <stdlib.h>
#include <string.h>

#include "sort.h"

static const char *last_part(const char *name) {
  const char *part = name;
  for (; *name; name++)
    if (*name == '.' || *name == '$') part = name + 1;
  return part;
}

// A key while sorting: its last part and its index.
typedef struct {
  const char *part;
  uint32_t at;
} entry;

static int by_part(const void *x, const void *y) {
  const entry *a = x, *b = y;
  int order = strcmp(a->part, b->part);
  return order ? order : (a->at > b->at) - (a->at < b->at);
}

bool plim_key_index_make(const plim_settings *s, plim_key_index *out) {
  *out = (plim_key_index){.count = s->at.len};
  entry *entries = malloc((s->at.len + 1) * sizeof *entries);
  out->names = malloc((s->at.len + 1) * sizeof *out->names);
  out->by_part = malloc((s->at.len + 1) * sizeof *out->by_part);
  bool ok = entries && out->names && out->by_part;
  for (size_t i = 0; ok && i < s->at.len; i++) {
    plim_key_name(s->at.at[i].key, out->names[i]);
    if (s->at.at[i].group) out->names[i][strcspn(out->names[i], "#")] = 0;
    entries[i] = (entry){last_part(out->names[i]), (uint32_t)i};
  }
  if (ok) plim_sort(entries, s->at.len, sizeof *entries, by_part);
  for (size_t i = 0; ok && i < s->at.len; i++) out->by_part[i] = entries[i].at;
  free(entries);
  return ok;
}

void plim_key_index_free(plim_key_index *index) {
  free(index->names);
  free(index->by_part);
  *index = (plim_key_index){0};
}

// The first index with a part that is not before `part`; with at_least 1, with a part after it.
static size_t bound(const plim_key_index *x, const char *part, int at_least) {
  size_t low = 0, high = x->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(last_part(x->names[x->by_part[middle]]), part) < at_least) low = middle + 1;
    else high = middle;
  }
  return low;
}

plim_key_search plim_key_index_search(const plim_key_index *index, const char *pattern,
                                      bool is_nested) {
  const char *part = last_part(pattern);
  bool is_everywhere = strpbrk(part, "*?[") != NULL;
  plim_key_search search = {index, pattern, is_nested, is_everywhere, 0, index->count};
  if (is_everywhere) return search;
  search.at = bound(index, part, 0);
  search.end = bound(index, part, 1);
  return search;
}

size_t plim_key_search_next(plim_key_search *search) {
  const plim_key_index *x = search->index;
  while (search->at < search->end) {
    size_t at = search->at++, i = search->is_everywhere ? at : x->by_part[at];
    if (plim_key_fits(x->names[i], search->pattern, search->is_nested)) return i;
  }
  return SIZE_MAX;
}
