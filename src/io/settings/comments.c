#include "comments.h"

#include <string.h>

#include "literals.h"

// The index of the comment on a line; -1 if there is none.
static long comment_on(const plim_comments *c, uint32_t line) {
  size_t low = 0, high = c->len;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->at[middle].line < line) low = middle + 1;
    else high = middle;
  }
  return low < c->len && c->at[low].line == line ? (long)low : -1;
}

static bool add_text(const plim_settings *s, const plim_comment *comment, plim_chars *out) {
  const char *at = s->text + comment->begin, *end = s->text + comment->end;
  while (at < end && *at == '#') at++;
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  while (end > at && (end[-1] == ' ' || end[-1] == '\t')) end--;
  return plim_chars_add(out, at, (size_t)(end - at));
}

static const char *keep(const plim_comments *c, plim_settings *s, long from, long to) {
  plim_chars text = {0};
  bool ok = true;
  for (long i = from; ok && i <= to; i++)
    ok = (i == from || vec_push(&text, '\n')) && add_text(s, &c->at[i], &text);
  const char *kept = ok ? plim_settings_keep(s, text.at ? text.at : "", text.len) : NULL;
  vec_free(&text);
  return kept;
}

static const char *text_above(plim_comments *c, plim_settings *s, long last) {
  long first = last;
  if (c->at[last].above) return c->at[last].above;
  while (first > 0 && c->at[first - 1].is_alone && c->at[first - 1].line + 1 == c->at[first].line)
    first--;
  return c->at[last].above = keep(c, s, first, last);
}

const char *plim_comment_of(plim_comments *c, plim_settings *s, uint32_t first_line,
                            uint32_t last_line) {
  long behind = comment_on(c, last_line),
       above = first_line > 1 ? comment_on(c, first_line - 1) : -1;
  if (behind >= 0 && !c->at[behind].is_alone) {
    if (!c->at[behind].behind) c->at[behind].behind = keep(c, s, behind, behind);
    return c->at[behind].behind;
  }
  return above >= 0 && c->at[above].is_alone ? text_above(c, s, above) : "";
}
