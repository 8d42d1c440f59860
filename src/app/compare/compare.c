#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sort.h"

// ---- facts ------------------------------------------------------------------------------------------

static const char *find(const compare_facts *facts, const char *name) {
  for (size_t i = 0; i < facts->len; i++)
    if (strcmp(facts->at[i].name, name) == 0) return facts->at[i].value;
  return NULL;
}

static bool add_others(const compare_facts *a, const compare_facts *b, compare_others *out) {
  for (size_t i = 0; i < a->len; i++) {
    const char *other = find(b, a->at[i].name);
    if (!other || strcmp(other, a->at[i].value) == 0) continue;
    compare_other one = {strdup(a->at[i].name), strdup(a->at[i].value), strdup(other)};
    if (one.name && one.predicted && one.measured && vec_push(out, one)) continue;
    free(one.name), free(one.predicted), free(one.measured);
    return false;
  }
  return true;
}

// ---- lines ------------------------------------------------------------------------------------------

// Whether the package of this module has another version on the other side.
static bool is_other_version(const comparison *c, const char *module) {
  size_t length = strcspn(module, ".");
  for (size_t i = 0; i < c->versions.len; i++) {
    const char *name = c->versions.at[i].name;
    if (strlen(name) == length && strncmp(name, module, length) == 0) return true;
  }
  return false;
}

// NULL when out of memory.
static char *name_of(const comparison *c, const compare_line *line) {
  char *name = NULL;
  const char *function = line->function ? line->function : "?";
  if (!line->module || line->line == PLIM_UNKNOWN)
    return strdup("(no Python stack: autograd's backward thread)");
  int size = is_other_version(c, line->module) ? asprintf(&name, "%s (%s)", line->module, function)
                                               : asprintf(&name, "%s:%llu (%s)", line->module,
                                                          (unsigned long long)line->line, function);
  return size < 0 ? NULL : name;
}

static compare_row *row_named(comparison *c, const char *where) {
  for (size_t i = 0; i < c->rows.len; i++)
    if (strcmp(c->rows.at[i].where, where) == 0) return &c->rows.at[i];
  return NULL;
}

static bool add_lines(comparison *c, const compare_side *side, bool is_measured) {
  for (size_t i = 0; i < side->lines.len; i++) {
    char *where = name_of(c, &side->lines.at[i]);
    compare_row *row = where ? row_named(c, where) : NULL;
    if (row) free(where);
    else if (!where || !vec_push(&c->rows, (compare_row){.where = where})) {
      free(where);
      return false;
    } else row = &c->rows.at[c->rows.len - 1];
    *(is_measured ? &row->measured_bytes : &row->predicted_bytes) += side->lines.at[i].bytes;
  }
  return true;
}

static uint64_t distance(const compare_row *r) {
  return r->measured_bytes > r->predicted_bytes ? r->measured_bytes - r->predicted_bytes
                                                : r->predicted_bytes - r->measured_bytes;
}

static int by_distance(const void *a, const void *b) {
  uint64_t x = distance(a), y = distance(b);
  return x > y ? -1 : x < y;
}

static void drop_equal(comparison *c) {
  size_t kept = 0;
  for (size_t i = 0; i < c->rows.len; i++) {
    if (distance(&c->rows.at[i])) c->rows.at[kept++] = c->rows.at[i];
    else free(c->rows.at[i].where);
  }
  c->rows.len = kept;
}

// ---- all of it --------------------------------------------------------------------------------------

plim_err compare(const compare_side *predicted, const compare_side *measured, comparison *out,
                 plim_error *error) {
  *out = (comparison){0};
  bool ok = add_others(&predicted->versions, &measured->versions, &out->versions) &&
            add_others(&predicted->observed, &measured->observed, &out->observed);
  if (ok && predicted->has_lines && measured->has_lines)
    ok = add_lines(out, predicted, false) && add_lines(out, measured, true);
  drop_equal(out);
  if (out->rows.len) plim_sort(out->rows.at, out->rows.len, sizeof *out->rows.at, by_distance);
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static void clear_others(compare_others *others) {
  for (size_t i = 0; i < others->len; i++)
    free(others->at[i].name), free(others->at[i].predicted), free(others->at[i].measured);
  vec_free(others);
}

void comparison_clear(comparison *c) {
  for (size_t i = 0; i < c->rows.len; i++) free(c->rows.at[i].where);
  vec_free(&c->rows);
  clear_others(&c->versions);
  clear_others(&c->observed);
}
