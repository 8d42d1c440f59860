#include "docker_stages.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// ---- FROM base AS name ------------------------------------------------------------------------------

static bool next_word(const plim_docker *d, size_t *at, plim_span *word) {
  while (*at < d->rest.end && isspace((unsigned char)d->line.at[*at])) ++*at;
  word->begin = *at;
  while (*at < d->rest.end && !isspace((unsigned char)d->line.at[*at])) ++*at;
  word->end = *at;
  return word->end > word->begin;
}

static bool keep_word(const plim_docker *d, plim_span word, plim_bytes *out) {
  out->len = 0;
  for (size_t i = word.begin; i < word.end; i++)
    if (!vec_push(out, (char)tolower((unsigned char)d->line.at[i]))) return false;
  return vec_push(out, 0);
}

static bool read_from(const plim_docker *d, plim_docker_stage *stage) {
  size_t at = d->rest.begin;
  plim_span word;
  bool is_known = next_word(d, &at, &word);
  while (is_known && d->line.at[word.begin] == '-')
    is_known = next_word(d, &at, &word); // --platform
  if (!is_known) word = (plim_span){0};
  if (!keep_word(d, word, &stage->base)) return false;
  bool is_named = is_known && next_word(d, &at, &word) && word.end - word.begin == 2 &&
                  strncasecmp(d->line.at + word.begin, "as", 2) == 0 && next_word(d, &at, &word);
  return keep_word(d, is_named ? word : (plim_span){0}, &stage->name);
}

// ---- all stages -------------------------------------------------------------------------------------

static bool note(const plim_docker *d, plim_docker_stages *out) {
  plim_docker_stage *last = out->at.len ? &out->at.at[out->at.len - 1] : NULL;
  if (last && plim_docker_is(d, "CMD")) last->cmd = d->span.begin;
  if (last && plim_docker_is(d, "ENTRYPOINT")) last->entry = d->span.begin;
  if (!plim_docker_is(d, "FROM")) return true;
  plim_docker_stage stage = {.begin = d->span.begin, .cmd = SIZE_MAX, .entry = SIZE_MAX};
  return vec_push(&out->at, stage) && read_from(d, &out->at.at[out->at.len - 1]);
}

// The earlier stage that this one is built from; SIZE_MAX if it is built from another image.
static size_t base_of(const plim_docker_stages *s, size_t stage) {
  for (size_t i = stage; i-- > 0;)
    if (*s->at.at[i].name.at && strcmp(s->at.at[i].name.at, s->at.at[stage].base.at) == 0) return i;
  return SIZE_MAX;
}

// Decides which stages, which CMD and which ENTRYPOINT take effect. An ENTRYPOINT discards the CMD of its base stage.
static void decide(plim_docker_stages *s) {
  bool takes_cmd = true;
  for (size_t i = s->at.len - 1; i != SIZE_MAX; i = base_of(s, i)) {
    plim_docker_stage *stage = &s->at.at[i];
    stage->is_in_force = true;
    if (takes_cmd && s->cmd == SIZE_MAX) s->cmd = stage->cmd;
    if (s->entry == SIZE_MAX) s->entry = stage->entry;
    takes_cmd = takes_cmd && stage->entry == SIZE_MAX;
  }
}

bool plim_docker_stages_find(const char *text, size_t size, plim_docker_stages *out) {
  *out = (plim_docker_stages){.cmd = SIZE_MAX, .entry = SIZE_MAX};
  plim_docker d = plim_docker_begin(text, size);
  bool ok = true;
  while (ok && plim_docker_next(&d)) ok = note(&d, out);
  ok = ok && !d.is_out;
  plim_docker_end(&d);
  if (ok && out->at.len) decide(out);
  return ok;
}

void plim_docker_stages_free(plim_docker_stages *stages) {
  for (size_t i = 0; i < stages->at.len; i++) {
    vec_free(&stages->at.at[i].name);
    vec_free(&stages->at.at[i].base);
  }
  vec_free(&stages->at);
}

static const plim_docker_stage *stage_at(const plim_docker_stages *s, size_t byte) {
  size_t low = 0, high = s->at.len; // searches the first stage that begins after `byte`
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (s->at.at[middle].begin <= byte) low = middle + 1;
    else high = middle;
  }
  return low ? &s->at.at[low - 1] : NULL;
}

bool plim_docker_in_force(const plim_docker_stages *stages, const plim_docker *d) {
  const plim_docker_stage *stage = stage_at(stages, d->span.begin);
  if (stage && !stage->is_in_force) return false;
  if (stage && plim_docker_is(d, "CMD")) return d->span.begin == stages->cmd;
  if (stage && plim_docker_is(d, "ENTRYPOINT")) return d->span.begin == stages->entry;
  return true;
}
