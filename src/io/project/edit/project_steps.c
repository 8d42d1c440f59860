// Edits that depend on each other: each is made for the text after the previous ones, and is translated to positions in
// the original text.
#include "project_steps.h"

#include <stdlib.h>
#include <string.h>

static bool is_edited(const plim_edit_set *edits, size_t file) {
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].file == file) return true;
  return false;
}

// A file without edits is used in place instead of being copied, because most look-ups find nothing.
plim_err plim_step_begin(const plim_project *p, size_t file, const plim_edit_set *edits,
                         plim_project_file *out, plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  if (!is_edited(edits, file)) {
    *out = *f;
    out->is_lent = true;
    return PLIM_OK;
  }
  *out = (plim_project_file){.path = f->path, .flags = f->flags, .is = f->is, .recipe = f->recipe};
  plim_err err = plim_project_text(p, file, edits, &out->text, &out->size, error);
  if (!err)
    err = plim_settings_read_like(&f->settings, out->text, out->size, &out->settings, error);
  if (!err) err = plim_project_read_code(out, error);
  if (err) plim_step_end(out);
  return err;
}

void plim_step_end(plim_project_file *f) {
  if (!f->is_lent) {
    plim_settings_clear(&f->settings);
    plim_python_code_clear(&f->code);
    free(f->text);
  }
  *f = (plim_project_file){0};
}

char *plim_broken_like(const plim_project_file *f, char *text) {
  size_t lines = 0, used = 0;
  const char *first = memchr(f->text, '\n', f->size);
  bool has_returns = first && first > f->text && first[-1] == '\r';
  if (!text || !has_returns) return text;
  for (const char *at = text; *at; at++) lines += *at == '\n';
  char *out = malloc(strlen(text) + lines + 1);
  for (const char *at = text; out && *at; at++) {
    bool is_bare = *at == '\n' && (at == text || at[-1] != '\r');
    if (is_bare) out[used++] = '\r';
    out[used++] = *at;
  }
  if (out) out[used] = 0;
  free(text);
  return out;
}

// ---- positions in the original text -----------------------------------------------------------------

// Edits of one file in the order of the text.
typedef struct {
  vec(size_t) at; // indexes in the edit set
  const plim_edit_set *edits;
} order;

static const plim_edit *edit_at(const order *o, size_t i) {
  return &o->edits->at.at[o->at.at[i]].edit;
}

static bool order_of(const plim_edit_set *edits, size_t file, order *out) {
  out->edits = edits;
  for (size_t i = 0; i < edits->at.len; i++) {
    if (edits->at.at[i].file != file) continue;
    if (!vec_push(&out->at, i)) return false;
    for (size_t k = out->at.len - 1; k > 0; k--) { // insertion sort: they are few
      if (edit_at(out, k - 1)->span.begin <= edit_at(out, k)->span.begin) break;
      size_t later = out->at.at[k - 1];
      out->at.at[k - 1] = out->at.at[k], out->at.at[k] = later;
    }
  }
  return true;
}

// The position of the i-th edit's text in the edited file.
static plim_span written_at(const order *o, size_t i) {
  size_t from = 0, now = 0;
  for (size_t k = 0; k < i; k++) {
    const plim_edit *before = edit_at(o, k);
    now += before->span.begin - from + strlen(before->text);
    from = before->span.end;
  }
  now += edit_at(o, i)->span.begin - from;
  return (plim_span){now, now + strlen(edit_at(o, i)->text)};
}

// The edits whose text the span overlaps or touches, from *first on; returns their number.
static size_t met_by(const order *o, plim_span span, size_t *first) {
  size_t count = 0;
  for (size_t i = 0; i < o->at.len; i++) {
    plim_span written = written_at(o, i);
    if (written.begin > span.end || written.end < span.begin) continue;
    if (!count++) *first = i;
  }
  return count;
}

// Translates a position outside all edits to the original text.
static size_t place_before(const order *o, size_t now) {
  size_t place = now;
  for (size_t i = 0; i < o->at.len; i++) {
    size_t end = written_at(o, i).end;
    if (end < now) place = edit_at(o, i)->span.end + (now - end);
  }
  return place;
}

// ---- adding an edit ---------------------------------------------------------------------------------

static char *joined(const char *text, plim_span whole, const plim_edit *edit) {
  size_t head = edit->span.begin - whole.begin, tail = whole.end - edit->span.end;
  size_t size = strlen(edit->text);
  char *out = malloc(head + size + tail + 1);
  if (!out) return NULL;
  memcpy(out, text + whole.begin, head);
  memcpy(out + head, edit->text, size);
  memcpy(out + head + size, text + edit->span.end, tail);
  out[head + size + tail] = 0;
  return out;
}

// Merges the edit with those that it overlaps or touches.
static bool join(const char *text, const order *o, size_t first, size_t count, plim_edit *edit) {
  const plim_edit *from = edit_at(o, first), *to = edit_at(o, first + count - 1);
  plim_span head = written_at(o, first), tail = written_at(o, first + count - 1);
  plim_span whole = {edit->span.begin < head.begin ? edit->span.begin : head.begin,
                     edit->span.end > tail.end ? edit->span.end : tail.end};
  char *all = joined(text, whole, edit);
  if (!all) return false;
  free(edit->text);
  *edit = (plim_edit){
      {from->span.begin - (head.begin - whole.begin), to->span.end + (whole.end - tail.end)}, all};
  return true;
}

static void forget(plim_edit_set *edits, const order *o, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    free(edits->at.at[o->at.at[i]].edit.text);
    edits->at.at[o->at.at[i]].edit.text = NULL;
  }
  size_t kept = 0;
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].edit.text) edits->at.at[kept++] = edits->at.at[i];
  edits->at.len = kept;
}

plim_err plim_step_add(const plim_project_file *now, size_t file, plim_edit edit,
                       plim_edit_set *edits, plim_error *error) {
  order o = {0};
  size_t first = 0;
  bool ok = vec_reserve(&edits->at, 1) && order_of(edits, file, &o);
  size_t met = ok ? met_by(&o, edit.span, &first) : 0;
  if (ok && met) ok = join(now->text, &o, first, met, &edit);
  else if (ok)
    edit.span = (plim_span){place_before(&o, edit.span.begin), place_before(&o, edit.span.end)};
  if (ok && met) forget(edits, &o, first, met);
  if (ok) vec_push(&edits->at, ((plim_file_edit){file, edit}));
  else free(edit.text);
  vec_free(&o.at);
  return ok ? PLIM_OK : plim_no_memory(error);
}
