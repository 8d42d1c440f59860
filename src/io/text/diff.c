#include "diff.h"

#include <stdio.h>
#include <string.h>

#include "diff_lines.h"
#include "vec.h"

#define CONTEXT 3
#define NO_NEWLINE "\n\\ No newline at end of file\n"

// ---- bytes ------------------------------------------------------------------------------------

static bool put(plim_diff *out, const char *text, size_t size) {
  if (!vec_reserve(out, size)) return false;
  if (size) memcpy(out->at + out->len, text, size);
  out->len += size;
  return true;
}

static bool put_text(plim_diff *out, const char *text) { return put(out, text, strlen(text)); }

// ---- names ------------------------------------------------------------------------------------

static bool must_escape(unsigned char c) {
  return c < 0x20 || c >= 0x7f || c == '"' || c == '\\'; // as git does with core.quotePath on
}

static bool must_quote(const char *path) {
  for (; *path; path++)
    if (must_escape((unsigned char)*path)) return true;
  return false;
}

static bool put_escaped(plim_diff *out, unsigned char c) {
  static const char named[] = "\a\b\t\n\v\f\r\"\\", letters[] = "abtnvfr\"\\";
  const char *found = memchr(named, c, sizeof named - 1);
  char text[8];
  if (found) snprintf(text, sizeof text, "\\%c", letters[found - named]);
  else if (must_escape(c)) snprintf(text, sizeof text, "\\%03o", c);
  else snprintf(text, sizeof text, "%c", c);
  return put_text(out, text);
}

// Writes a/path or b/path, in quotes if git would quote it.
static bool put_name(plim_diff *out, const char *side, const char *path) {
  if (!must_quote(path)) return put_text(out, side) && put_text(out, path);
  bool ok = put_text(out, "\"") && put_text(out, side);
  for (; ok && *path; path++) ok = put_escaped(out, (unsigned char)*path);
  return ok && put_text(out, "\"");
}

// Writes a line with a name. A name with spaces needs a tab after it: otherwise patch takes its second word for a date.
static bool put_name_line(plim_diff *out, const char *sign, const char *side, const char *path) {
  bool ok = put_text(out, sign);
  if (!path) return ok && put_text(out, "/dev/null\n");
  bool needs_tab = strchr(path, ' ') && !must_quote(path);
  return ok && put_name(out, side, path) && put_text(out, needs_tab ? "\t\n" : "\n");
}

typedef struct {
  const char *path, *before, *after;
  size_t before_size, after_size;
} change;

static bool put_head(plim_diff *out, const change *c) {
  return put_text(out, "diff --git ") && put_name(out, "a/", c->path) && put_text(out, " ") &&
         put_name(out, "b/", c->path) && put_text(out, "\n") &&
         (c->before || put_text(out, "new file mode 100644\n")) &&
         (c->after || put_text(out, "deleted file mode 100644\n"));
}

static bool put_name_lines(plim_diff *out, const change *c) {
  return put_name_line(out, "--- ", "a/", c->before ? c->path : NULL) &&
         put_name_line(out, "+++ ", "b/", c->after ? c->path : NULL);
}

// ---- hunks ------------------------------------------------------------------------------------

// A range of lines in both texts; the ends are exclusive.
typedef struct {
  size_t old, old_end, new, new_end;
} hunk;

static bool differs(const plim_diff_text *text, size_t line) {
  return line < text->len && text->at[line].differs;
}

// Moves `h` to the next run of differing lines; false if there is none.
static bool next_run(const plim_diff_text *old, const plim_diff_text *new, hunk *h) {
  size_t x = h->old_end, y = h->new_end;
  while (x < old->len && y < new->len && !differs(old, x) && !differs(new, y)) x++, y++;
  *h = (hunk){x, x, y, y};
  while (differs(old, h->old_end)) h->old_end++;
  while (differs(new, h->new_end)) h->new_end++;
  return h->old < h->old_end || h->new < h->new_end;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// Finds the next hunk. Runs whose contexts would overlap or touch are joined; then the context is added.
static bool next_hunk(const plim_diff_text *old, const plim_diff_text *new, hunk *h) {
  if (!next_run(old, new, h)) return false;
  for (hunk next = *h; next_run(old, new, &next) && next.old - h->old_end <= 2 * CONTEXT;)
    h->old_end = next.old_end, h->new_end = next.new_end;
  size_t lead = least(CONTEXT, h->old), tail = least(CONTEXT, old->len - h->old_end);
  h->old -= lead, h->new -= lead, h->old_end += tail, h->new_end += tail;
  return true;
}

// Writes "-3,7": first line and number of lines. A number of 1 is omitted; an empty range names the line before it.
static bool put_range(plim_diff *out, const char *sign, size_t begin, size_t end) {
  char text[64];
  size_t first = end > begin ? begin + 1 : begin;
  if (end - begin == 1) snprintf(text, sizeof text, "%s%zu", sign, first);
  else snprintf(text, sizeof text, "%s%zu,%zu", sign, first, end - begin);
  return put_text(out, text);
}

static bool put_line(plim_diff *out, const char *sign, const plim_diff_line *line) {
  bool ok = put(out, sign, 1) && put(out, line->text, line->size);
  return line->text[line->size - 1] == '\n' ? ok : ok && put_text(out, NO_NEWLINE);
}

static bool put_hunk(plim_diff *out, const plim_diff_text *old, const plim_diff_text *new,
                     const hunk *h) {
  bool ok = put_range(out, "@@ -", h->old, h->old_end) &&
            put_range(out, " +", h->new, h->new_end) && put_text(out, " @@\n");
  size_t x = h->old, y = h->new;
  while (ok && (x < h->old_end || y < h->new_end)) {
    if (x < h->old_end && differs(old, x)) ok = put_line(out, "-", &old->at[x++]);
    else if (y < h->new_end && differs(new, y)) ok = put_line(out, "+", &new->at[y++]);
    else ok = put_line(out, " ", &old->at[x++]), y++;
  }
  return ok;
}

static bool put_hunks(plim_diff *out, const change *c, const plim_diff_text *old,
                      const plim_diff_text *new) {
  bool ok = true, is_first = true;
  for (hunk h = {0}; ok && next_hunk(old, new, &h); is_first = false)
    ok = (!is_first || put_name_lines(out, c)) && put_hunk(out, old, new, &h);
  return ok;
}

static bool put_change(plim_diff *out, const change *c) {
  plim_diff_text old = {0}, new = {0};
  bool ok = plim_diff_cut(c->before ? c->before : "", c->before_size, &old) &&
            plim_diff_cut(c->after ? c->after : "", c->after_size, &new) &&
            plim_diff_compare(&old, &new) && put_head(out, c) && put_hunks(out, c, &old, &new);
  free(old.at);
  free(new.at);
  return ok;
}

static bool is_same(const change *c) {
  if (!c->before || !c->after) return !c->before && !c->after;
  return c->before_size == c->after_size && memcmp(c->before, c->after, c->after_size) == 0;
}

plim_err plim_diff_add(plim_diff *diff, const char *path, const char *before, size_t before_size,
                       const char *after, size_t after_size, plim_error *error) {
  change c = {path, before, after, before ? before_size : 0, after ? after_size : 0};
  size_t length = diff->len;
  if (is_same(&c) || put_change(diff, &c)) return PLIM_OK;
  diff->len = length;
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

void plim_diff_clear(plim_diff *diff) { vec_free(diff); }
