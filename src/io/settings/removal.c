#include "removal.h"

#include <stdlib.h>
#include <string.h>

plim_err plim_removal_refuse(const plim_setting *setting, const char *why, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be removed: %s", setting->key, why);
  plim_error_at(error, setting->span.begin);
  return err;
}

// ---- the check --------------------------------------------------------------------------------------

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_value(const plim_value *a, const plim_value *b) {
  if (a->kind != b->kind || !same_text(a->text, b->text)) return false;
  bool is_nan = a->real != a->real && b->real != b->real;
  return a->flag == b->flag && a->integer == b->integer && (a->real == b->real || is_nan);
}

// The length of a key without the number of its command: --lr of --lr#2.
static size_t name_size(const char *key) { return *key ? strcspn(key + 1, "#") + 1 : 0; }

static bool same_name(const char *a, const char *b) {
  size_t n = name_size(a);
  return n == name_size(b) && memcmp(a, b, n) == 0;
}

// Whether a computed value contains the edited text in its source, which then changes too.
static bool is_around(const plim_setting *setting, const plim_edit *edit) {
  return setting->value.kind == PLIM_VALUE_DERIVED && setting->span.begin <= edit->span.begin &&
         setting->span.end >= edit->span.end;
}

// Whether the setting is unchanged. The number of the same flag of other commands may be lower by one.
static bool is_kept(const plim_settings *s, const plim_setting *before, const plim_setting *after,
                    const plim_setting *gone, const plim_edit *edit) {
  bool is_command = s->format == PLIM_FORMAT_SHELL || s->format == PLIM_FORMAT_DOCKERFILE;
  bool is_numbered = is_command && same_name(before->key, gone->key);
  bool is_same_key =
      is_numbered ? same_name(after->key, gone->key) : strcmp(before->key, after->key) == 0;
  if (is_same_key && is_around(before, edit)) return after->value.kind == PLIM_VALUE_DERIVED;
  return is_same_key && same_value(&before->value, &after->value) &&
         same_text(before->root, after->root);
}

// What is removed: one setting, or all settings below the key `roof`.
typedef struct {
  const plim_setting *one; // the setting, or one of those below `roof`
  const char *roof;        // NULL: only `one` is removed
} leaving;

static bool leaves(const leaving *gone, const plim_setting *setting) {
  return gone->roof ? plim_key_is_below(setting->key, gone->roof) : setting == gone->one;
}

static bool comes_from(const leaving *gone, const plim_setting *setting) {
  if (!gone->roof) return same_text(setting->root, gone->one->key);
  return setting->root && plim_key_is_below(setting->root, gone->roof);
}

// Whether only these settings are gone: no other setting has the same key or is computed from them, and all are unchanged.
static bool lost_only(const plim_settings *s, const plim_settings *after, const leaving *gone,
                      const plim_edit *edit) {
  size_t k = 0;
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *at = &s->at.at[i];
    if (leaves(gone, at)) continue;
    if (strcmp(at->key, gone->one->key) == 0 || comes_from(gone, at)) return false;
    if (k >= after->at.len || !is_kept(s, at, &after->at.at[k++], gone->one, edit)) return false;
  }
  return k == after->at.len;
}

static bool holds(const plim_settings *s, const leaving *gone, const plim_edit *edit) {
  plim_settings after;
  char *text;
  size_t size;
  if (plim_edits_apply(s->text, s->size, edit, 1, &text, &size, NULL)) return false;
  bool is_read = !plim_settings_read_like(s, text, size, &after, NULL);
  bool is_good = is_read && lost_only(s, &after, gone, edit);
  if (is_read) plim_settings_clear(&after);
  free(text);
  return is_good;
}

// ---- places -----------------------------------------------------------------------------------------

static char at(const plim_settings *s, size_t i) { return i < s->size ? s->text[i] : 0; }

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool is_break(char c) { return c == '\n' || c == '\r'; }

static size_t skip_blanks(const plim_settings *s, size_t i) {
  while (i < s->size && is_blank(s->text[i])) i++;
  return i;
}

static size_t line_begin(const plim_settings *s, size_t i) {
  while (i && !is_break(s->text[i - 1])) i--;
  return i;
}

static size_t line_end(const plim_settings *s, size_t i) {
  while (i < s->size && !is_break(s->text[i])) i++;
  return i;
}

static size_t behind_break(const plim_settings *s, size_t i) {
  i += at(s, i) == '\r';
  return i + (at(s, i) == '\n');
}

static size_t before_break(const plim_settings *s, size_t i) {
  i -= i && s->text[i - 1] == '\n';
  return i - (i && s->text[i - 1] == '\r');
}

static bool begins_comment(const plim_settings *s, size_t i) {
  bool has_slashes = s->format == PLIM_FORMAT_JSON && at(s, i) == '/' && at(s, i + 1) == '/';
  return has_slashes || (s->format != PLIM_FORMAT_JSON && at(s, i) == '#');
}

static bool ends_its_line(const plim_settings *s, size_t i) {
  i = skip_blanks(s, i);
  return i >= s->size || is_break(s->text[i]) || begins_comment(s, i);
}

static bool begins_its_line(const plim_settings *s, size_t i) {
  size_t from = line_begin(s, i);
  bool has_bom = from == 0 && s->size >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0;
  return skip_blanks(s, from + (has_bom ? 3 : 0)) >= i;
}

// The place after the next comma, or `end` if no comma follows.
static size_t behind_comma(const plim_settings *s, size_t end) {
  size_t i = skip_blanks(s, end);
  return at(s, i) == ',' ? i + 1 : end;
}

// The comma before the entry, with blanks, line breaks and comments between; SIZE_MAX if there is none.
static size_t comma_before(const plim_settings *s, size_t begin) {
  size_t from = 0, comma = SIZE_MAX;
  for (size_t i = 0; i < s->at.len; i++)
    if (s->at.at[i].span.end <= begin && s->at.at[i].span.end > from) from = s->at.at[i].span.end;
  for (size_t i = from; i < begin; i++) {
    if (s->text[i] == ',') comma = i;
    else if (begins_comment(s, i)) i = line_end(s, i);
    else if (!is_blank(s->text[i]) && !is_break(s->text[i])) comma = SIZE_MAX;
  }
  return comma;
}

// ---- what is removed with an entry ------------------------------------------------------------------

typedef struct {
  const plim_settings *s;
  plim_span entry;
  size_t comma; // the comma before the entry; SIZE_MAX: none
  size_t end;   // the end of the comma after the entry, or of the entry
} removal;

// The span to remove, except the part `kept`.
typedef struct {
  plim_span span, kept;
} cut;

// The lines of an entry. At the end of a text without a final line break, they include the break before them.
bool plim_entry_lines(const plim_settings *s, plim_span entry, plim_span *out) {
  size_t end = behind_comma(s, entry.end);
  if (!begins_its_line(s, entry.begin) || !ends_its_line(s, end)) return false;
  size_t begin = line_begin(s, entry.begin), last = line_end(s, end);
  bool is_open = last == s->size;
  if (begin == 0 && s->size >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0) begin = 3;
  *out = (plim_span){is_open ? before_break(s, begin) : begin, behind_break(s, last)};
  return true;
}

static bool cut_lines(const removal *r, cut *out) {
  return plim_entry_lines(r->s, r->entry, &out->span);
}

// The last of several lines is removed with the comma before it; a comment after that comma stays.
static bool cut_last_line(const removal *r, cut *out) {
  plim_span lines;
  bool is_last = r->end == r->entry.end && r->comma != SIZE_MAX;
  if (!is_last || !plim_entry_lines(r->s, r->entry, &lines)) return false;
  size_t begin = line_begin(r->s, r->entry.begin);
  if (r->comma >= begin) return false;
  out->span = (plim_span){r->comma, line_end(r->s, r->end)};
  out->kept = (plim_span){r->comma + 1, before_break(r->s, begin)};
  return true;
}

// At the end of a line, the blanks before the entry are removed too.
static bool cut_with_comma(const removal *r, cut *out) {
  if (r->end == r->entry.end) return false;
  size_t begin = r->entry.begin, end = skip_blanks(r->s, r->end);
  bool ends_line = end == r->s->size || is_break(r->s->text[end]);
  while (ends_line && begin && is_blank(r->s->text[begin - 1])) begin--;
  out->span = (plim_span){begin, end};
  return true;
}

static bool cut_with_comma_before(const removal *r, cut *out) {
  if (r->comma == SIZE_MAX) return false;
  for (size_t i = r->comma + 1; i < r->entry.begin; i++)
    if (!is_blank(r->s->text[i]) && !is_break(r->s->text[i])) return false;
  out->span = (plim_span){r->comma, r->entry.end};
  return true;
}

static bool cut_alone(const removal *r, cut *out) {
  out->span = r->entry;
  return true;
}

typedef bool way(const removal *r, cut *out);
static way *const ways[] = {cut_last_line, cut_lines, cut_with_comma, cut_with_comma_before,
                            cut_alone};
enum { WAYS = sizeof ways / sizeof *ways, BLOCK_WAYS = 2 };

static bool make(const plim_settings *s, const cut *c, plim_edit *out) {
  *out = (plim_edit){c->span, plim_copy_of(s->text + c->kept.begin, c->kept.end - c->kept.begin)};
  return out->text != NULL;
}

static plim_err try_cut(const plim_settings *s, const leaving *gone, const cut *c, plim_edit *out,
                        plim_error *error) {
  if (!make(s, c, out)) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (holds(s, gone, out)) return PLIM_OK;
  free(out->text);
  *out = (plim_edit){0};
  return plim_removal_refuse(gone->one, "other settings would be removed with it", error);
}

// Callers may pass a copy of a setting; this returns the original one.
static const plim_setting *original_of(const plim_settings *s, const plim_setting *setting) {
  for (size_t i = 0; i < s->at.len; i++) {
    const plim_setting *x = &s->at.at[i];
    bool is_there = x->span.begin == setting->span.begin && x->span.end == setting->span.end;
    if (is_there && strcmp(x->key, setting->key) == 0) return x;
  }
  return NULL;
}

plim_err plim_span_remove(const plim_settings *s, const plim_setting *setting, plim_span span,
                          plim_edit *out, plim_error *error) {
  leaving gone = {original_of(s, setting), NULL};
  if (!gone.one) return plim_removal_refuse(setting, "it is no longer where it was read", error);
  return try_cut(s, &gone, &(cut){span, {0, 0}}, out, error);
}

static plim_err remove_leaving(const plim_settings *s, const leaving *gone, plim_span entry,
                               bool is_block, plim_edit *out, plim_error *error) {
  while (entry.end > entry.begin && is_break(s->text[entry.end - 1])) entry.end--;
  removal r = {s, entry, comma_before(s, entry.begin), behind_comma(s, entry.end)};
  plim_error why = {0};
  plim_err err = plim_removal_refuse(gone->one, "it is not on a line of its own", &why);
  for (int i = 0; err == PLIM_ERR_UNSUPPORTED && i < (is_block ? BLOCK_WAYS : WAYS); i++) {
    cut c = {0};
    if (ways[i](&r, &c)) err = try_cut(s, gone, &c, out, &why);
  }
  if (err && error) *error = why;
  return err;
}

plim_err plim_entry_remove(const plim_settings *s, const plim_setting *setting, plim_span entry,
                           bool is_block, plim_edit *out, plim_error *error) {
  leaving gone = {original_of(s, setting), NULL};
  if (!gone.one) return plim_removal_refuse(setting, "it is no longer where it was read", error);
  return remove_leaving(s, &gone, entry, is_block, out, error);
}

plim_err plim_roof_remove(const plim_settings *s, const plim_setting *first, const char *roof,
                          plim_span entry, bool is_block, plim_edit *out, plim_error *error) {
  return remove_leaving(s, &(leaving){first, roof}, entry, is_block, out, error);
}
