// Files that others refer to but that could not be read. What they set is not known.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "literals.h"
#include "project_impl.h"

static void free_unread(plim_unread *u) {
  if (!u) return;
  free(u->name);
  free(u->from);
  free(u);
}

void plim_unread_clear(plim_project *p) {
  for (size_t i = 0; i < p->unread.len; i++) free_unread(p->unread.at[i]);
  vec_free(&p->unread);
  plim_hash_free(&p->unread_names);
}

static uint64_t hash_of(const char *name) { return plim_text_hash(0, name, strlen(name)); }

// The one of this name, found by its hash; NULL: none.
static plim_unread *find_unread(const plim_project *p, const char *name) {
  const uint32_t *at = plim_hash_find(&p->unread_names, hash_of(name));
  plim_unread *u = at ? p->unread.at[*at] : NULL;
  return u && strcmp(u->name, name) == 0 ? u : NULL;
}

static int line_of_error(const char *path, const plim_error *why) {
  enum { MOST_BYTES = 16 << 20 };
  plim_line_counter lines = {0};
  char *text;
  size_t size;
  if (why->byte == PLIM_UNKNOWN || plim_text_file_read(path, MOST_BYTES, &text, &size, NULL))
    return 0;
  int line = why->byte <= size ? plim_line_at(&lines, text, (size_t)why->byte) : 0;
  free(text);
  return line;
}

plim_err plim_unread_add(plim_project *p, const plim_naming *by, const char *name,
                         const plim_error *why, plim_error *error) {
  plim_unread *u = find_unread(p, name);
  if (u && by->part > u->part) u->part = by->part;
  if (u) return PLIM_OK;
  u = calloc(1, sizeof *u);
  if (!u) return plim_no_memory(error);
  *u = (plim_unread){.name = strdup(name),
                     .from = strdup(by->from->path),
                     .part = by->part,
                     .shares = by->shares,
                     .is_missing = !why,
                     .byte = plim_source_byte(by->from, by->byte),
                     .line = plim_line_at(&p->lines, by->from->text, by->byte)};
  if (why) u->why = *why;
  if (why) u->why_line = line_of_error(name, why);
  if (u->name && u->from && vec_reserve(&p->unread, 1) &&
      plim_hash_put(&p->unread_names, hash_of(name), (uint32_t)p->unread.len)) {
    p->unread.at[p->unread.len++] = u;
    return PLIM_OK;
  }
  free_unread(u);
  return plim_no_memory(error);
}

static void describe(const plim_unread *u, char *text, size_t size) {
  if (u->is_missing)
    snprintf(text, size, "%.80s:%d refers to %.80s, which does not exist here and may set it",
             u->from, u->line, u->name);
  else
    snprintf(text, size, "%.80s, which %.60s:%d refers to, cannot be read and may set it", u->name,
             u->from, u->line);
}

// The knobs that decide memory. A file for DeepSpeed, FSDP or accelerate can set only the first few.
static const plim_knob decided[] = {
    PLIM_KNOB_STRATEGY,   PLIM_KNOB_OFFLOAD,    PLIM_KNOB_PRECISION, PLIM_KNOB_MODEL,
    PLIM_KNOB_DTYPE,      PLIM_KNOB_CHECKPOINT, PLIM_KNOB_OPTIMIZER, PLIM_KNOB_QUANTISATION,
    PLIM_KNOB_LORA_RANK,  PLIM_KNOB_SEQUENCE,   PLIM_KNOB_LIGER,     PLIM_KNOB_MICRO_BATCH,
    PLIM_KNOB_ACCUMULATE,
};
enum { SHARING_KNOBS = 3 };

static void doubt(plim_project *p, const plim_unread *u) {
  size_t count = u->shares ? SHARING_KNOBS : sizeof decided / sizeof *decided;
  for (size_t i = 0; i < count; i++) {
    plim_project_knob *k = &p->knobs[decided[i]];
    if (k->origin != PLIM_ABSENT && k->origin != PLIM_DEFAULTED) continue;
    *k = (plim_project_knob){.origin = PLIM_UNCLEAR, .is_fixed = true};
    describe(u, k->why, sizeof k->why);
  }
}

void plim_unread_doubt(plim_project *p) {
  for (size_t i = 0; i < p->unread.len; i++) doubt(p, p->unread.at[i]);
}
