#include "sourced_text.h"

#include <ctype.h>
#include <string.h>

void plim_sourced_put(plim_sourced *t, char c, uint32_t from) {
  if (t->is_out || !vec_reserve(&t->bytes, 1) || !vec_reserve(&t->from, 1)) t->is_out = true;
  else t->bytes.at[t->bytes.len++] = c, t->from.at[t->from.len++] = from;
}

void plim_sourced_write(plim_sourced *t, const char *text, uint32_t from) {
  for (; *text; text++) plim_sourced_put(t, *text, from);
}

void plim_sourced_copy(plim_sourced *t, const char *file, plim_span part) {
  for (size_t i = part.begin; i < part.end; i++) plim_sourced_put(t, file[i], (uint32_t)i);
}

void plim_sourced_append(plim_sourced *t, const plim_sourced *other, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) plim_sourced_put(t, other->bytes.at[i], other->from.at[i]);
  t->is_out |= other->is_out;
}

void plim_sourced_go_to(plim_sourced *t, int line) {
  int now = 1;
  for (size_t i = 0; i < t->bytes.len; i++) now += t->bytes.at[i] == '\n';
  for (; now < line; now++) plim_sourced_put(t, '\n', PLIM_FROM_NOWHERE);
}

void plim_sourced_free(plim_sourced *t) {
  vec_free(&t->bytes);
  vec_free(&t->from);
  t->is_out = false;
}

static bool is_plain(const plim_sourced *word) {
  for (size_t i = 0; i < word->bytes.len; i++)
    if (word->from.at[i] != PLIM_FROM_OPEN && !isalnum((unsigned char)word->bytes.at[i]) &&
        !strchr("-_./=:,@%+", word->bytes.at[i]))
      return false;
  return word->bytes.len;
}

void plim_sourced_quote(plim_sourced *t, const plim_sourced *word) {
  bool is_bare = is_plain(word), is_open = false;
  t->is_out |= word->is_out;
  for (size_t i = 0; i < word->bytes.len; i++) {
    bool is_quoted = !is_bare && word->from.at[i] != PLIM_FROM_OPEN;
    if (is_quoted != is_open) plim_sourced_put(t, '\'', PLIM_FROM_NOWHERE);
    is_open = is_quoted;
    if (is_quoted && word->bytes.at[i] == '\'') plim_sourced_write(t, "'\\''", PLIM_FROM_NOWHERE);
    else plim_sourced_put(t, word->bytes.at[i], word->from.at[i]);
  }
  if (is_open) plim_sourced_put(t, '\'', PLIM_FROM_NOWHERE);
  else if (!word->bytes.len) plim_sourced_write(t, "''", PLIM_FROM_NOWHERE);
}
