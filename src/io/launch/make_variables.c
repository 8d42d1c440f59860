#include "make_variables.h"
#include "value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 18, DEEPEST = 32 };

static plim_make_variable *find(plim_make_variables *m, const char *name, size_t size) {
  for (size_t i = 0; i < m->variables.len; i++) {
    plim_make_variable *v = &m->variables.at[i];
    if (strlen(v->name) == size && memcmp(v->name, name, size) == 0) return v;
  }
  return NULL;
}

plim_make_variable *plim_make_variable_of(plim_make_variables *m, const char *name, size_t size) {
  plim_make_variable *found = find(m, name, size);
  if (found) return found;
  char *copy = plim_copy_of(name, size);
  if (copy && vec_push(&m->variables, (plim_make_variable){.name = copy}))
    return &m->variables.at[m->variables.len - 1];
  free(copy);
  m->is_out = true;
  return NULL;
}

void plim_make_doubt_all(plim_make_variables *m) {
  for (size_t i = 0; i < m->variables.len; i++) m->variables.at[i].is_unclear = true;
}

void plim_make_assign(plim_make_variables *m, const char *name, size_t size, plim_make_how how,
                      const plim_sourced *value, int line) {
  plim_make_variable *v = plim_make_variable_of(m, name, size);
  plim_sourced now = {0};
  if (!v) return;
  v->assignments++;
  if (how == PLIM_MAKE_UNLESS_SET && v->is_set) return;
  bool adds = how == PLIM_MAKE_MORE && v->is_set;
  bool expands = how == PLIM_MAKE_NOW || (adds && v->is_simple);
  if (adds) {
    plim_sourced_append(&now, &v->value, 0, v->value.bytes.len);
    plim_sourced_put(&now, ' ', PLIM_FROM_NOWHERE);
  }
  if (expands) plim_make_expand(m, &(plim_make_place){0}, value, 0, value->bytes.len, &now);
  else plim_sourced_append(&now, value, 0, value->bytes.len);
  v = find(m, name, size);
  plim_sourced_free(&v->value);
  v->value = now;
  v->line = line;
  v->is_set = true;
  v->is_simple = adds ? v->is_simple : how == PLIM_MAKE_NOW;
  v->is_unclear = how == PLIM_MAKE_UNKNOWN || (adds && v->is_unclear);
  m->is_out |= now.is_out;
}

void plim_make_variables_clear(plim_make_variables *m) {
  for (size_t i = 0; i < m->variables.len; i++) {
    plim_sourced_free(&m->variables.at[i].value);
    free(m->variables.at[i].name);
  }
  vec_free(&m->variables);
}

// ---- how often a name is used -----------------------------------------------------------------------

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

// In the whole file except in comment lines.
static int count_name(const plim_make_variables *m, const char *name) {
  size_t n = strlen(name), line = 0;
  int count = 0;
  for (size_t i = 0; i + n <= m->size; i++) {
    if (i && m->text[i - 1] == '\n') line = i;
    if (m->text[line] == '#' || memcmp(m->text + i, name, n) != 0) continue;
    bool begins = !i || !is_name_char(m->text[i - 1]);
    bool ends = i + n == m->size || !is_name_char(m->text[i + n]);
    count += begins && ends;
  }
  return count;
}

// ---- expansion --------------------------------------------------------------------------------------

typedef struct {
  plim_make_variables *m;
  const plim_make_place *place;
  int depth;
  bool is_shared; // inside a variable that is used more than once
  bool is_inside; // inside a variable
  plim_sourced *out;
} expansion;

static void expand(expansion *e, const plim_sourced *text, size_t begin, size_t end);

static void put(expansion *e, char c, uint32_t from) {
  if (from < PLIM_FROM_OPEN && e->is_inside) from |= PLIM_FROM_VARIABLE;
  if (from < PLIM_FROM_OPEN && e->is_shared) from |= PLIM_FROM_SHARED;
  plim_sourced_put(e->out, c, from);
}

// A single word that is not known, such as $(shell ...), is named after the variable.
static bool is_open_word(const plim_sourced *text, size_t begin) {
  bool is_open = false;
  for (size_t i = begin; i < text->bytes.len; i++) {
    is_open |= text->from.at[i] == PLIM_FROM_OPEN;
    if (text->from.at[i] != PLIM_FROM_OPEN && strchr(" \t", text->bytes.at[i])) return false;
  }
  return is_open;
}

static void put_value(expansion *e, plim_make_variable *v) {
  size_t at = (size_t)(v - e->m->variables.at), begin = e->out->bytes.len;
  expansion inner = *e;
  plim_sourced value = v->value; // expanding adds no variable
  inner.is_inside = true;
  inner.is_shared |= v->assignments != 1 || count_name(e->m, v->name) != 2;
  inner.depth++;
  v->is_open = true;
  if (v->is_simple)
    for (size_t i = 0; i < value.bytes.len; i++) put(&inner, value.bytes.at[i], value.from.at[i]);
  else expand(&inner, &value, 0, value.bytes.len);
  e->m->variables.at[at].is_open = false;
  if (!is_open_word(e->out, begin)) return;
  e->out->bytes.len = e->out->from.len = begin;
  plim_launch_put_open(e->out, v->name, strlen(v->name));
}

// The first word is the name of a function, or of the variable before a substitution: $(NAME:.a=.b).
static void put_open(expansion *e, const char *content, size_t size) {
  size_t word = 0;
  while (word < size && (is_name_char(content[word]) || content[word] == '-')) word++;
  plim_launch_put_open(e->out, word ? content : "variable", word ? word : 8);
}

static bool put_automatic(expansion *e, const char *name, size_t size) {
  const plim_sourced *all = e->place->prerequisites;
  if (size != 1 || !strchr("@<^+", *name)) return false;
  if (*name == '@') {
    if (!e->place->target) return false;
    plim_sourced_write(e->out, e->place->target, PLIM_FROM_NOWHERE);
    return true;
  }
  if (!all) return false;
  size_t count = all->bytes.len;
  for (size_t i = 0; i < count; i++)
    if (all->from.at[i] == PLIM_FROM_OPEN || strchr("%|*", all->bytes.at[i])) return false;
  for (size_t i = 0; i < count && (*name != '<' || all->bytes.at[i] != ' '); i++)
    plim_sourced_put(e->out, all->bytes.at[i], PLIM_FROM_NOWHERE);
  return true;
}

static bool is(const char *name, size_t size, const char *word) {
  return strlen(word) == size && memcmp(name, word, size) == 0;
}

static void put_reference(expansion *e, const char *name, size_t size) {
  plim_make_variable *v = find(e->m, name, size);
  bool is_known = v && v->is_set && !v->is_unclear && !v->is_open && !e->m->doubts_all;
  bool has_room = e->depth < DEEPEST && e->out->bytes.len < MOST_BYTES;
  if (is_known && has_room) put_value(e, v);
  else if (v || !has_room) put_open(e, name, size);
  else if (is(name, size, "CURDIR") || is(name, size, "PWD"))
    plim_sourced_put(e->out, '.', PLIM_FROM_NOWHERE);
  else if (is(name, size, "MAKE")) plim_sourced_write(e->out, "make", PLIM_FROM_NOWHERE);
  else if (!put_automatic(e, name, size))
    plim_launch_put_given(e->out, e->m->text, e->m->size, name, size);
}

// The position after the ) or } that ends the reference; `end` if there is none.
static size_t closing(const char *text, size_t at, size_t end) {
  char open = text[at], close = open == '(' ? ')' : '}';
  int depth = 0;
  for (; at < end; at++) {
    depth += text[at] == open;
    depth -= text[at] == close;
    if (!depth) return at;
  }
  return end;
}

static bool is_simple_name(const char *name, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (!is_name_char(name[i]) && !strchr("-.@<^+", name[i])) return false;
  return size;
}

static void expand(expansion *e, const plim_sourced *text, size_t begin, size_t end) {
  const char *bytes = text->bytes.at;
  for (size_t i = begin; i < end; i++) {
    bool is_reference = bytes[i] == '$' && i + 1 < end && text->from.at[i] != PLIM_FROM_OPEN;
    if (!is_reference) put(e, bytes[i], text->from.at[i]);
    else if (bytes[++i] == '$') put(e, '$', text->from.at[i]);
    else if (bytes[i] == '(' || bytes[i] == '{') {
      size_t close = closing(bytes, i, end), size = close - i - 1;
      bool is_name = close < end && is_simple_name(bytes + i + 1, size);
      if (is_name) put_reference(e, bytes + i + 1, size);
      else put_open(e, bytes + i + 1, size);
      i = close;
    } else put_reference(e, bytes + i, 1);
  }
}

void plim_make_expand(plim_make_variables *m, const plim_make_place *place,
                      const plim_sourced *text, size_t begin, size_t end, plim_sourced *out) {
  expand(&(expansion){.m = m, .place = place, .out = out}, text, begin, end);
  m->is_out |= out->is_out;
}

// ---- the environment --------------------------------------------------------------------------------

static bool is_shell_name(const char *name) {
  for (const char *at = name; *at; at++)
    if (!is_name_char(*at)) return false;
  return *name && !isdigit((unsigned char)*name);
}

// The export is its one use, in the assignment or in a line of its own.
static void write_export(plim_make_variables *m, plim_make_variable *v, plim_sourced *script) {
  plim_sourced value = {0};
  int count = count_name(m, v->name);
  expansion e = {.m = m,
                 .place = &(plim_make_place){0},
                 .is_shared = v->assignments != 1 || count > 2,
                 .is_inside = true,
                 .out = &value};
  plim_sourced_write(script, "export ", PLIM_FROM_NOWHERE);
  plim_sourced_write(script, v->name, PLIM_FROM_NOWHERE);
  plim_sourced_put(script, '=', PLIM_FROM_NOWHERE);
  if (v->is_unclear || m->doubts_all) put_open(&e, v->name, strlen(v->name));
  else if (v->is_simple)
    for (size_t i = 0; i < v->value.bytes.len; i++)
      put(&e, v->value.bytes.at[i], v->value.from.at[i]);
  else {
    v->is_open = true;
    expand(&e, &v->value, 0, v->value.bytes.len);
    v->is_open = false;
  }
  plim_sourced_quote(script, &value);
  plim_sourced_put(script, ';', PLIM_FROM_NOWHERE);
  plim_sourced_free(&value);
}

void plim_make_export(plim_make_variables *m, int last, plim_sourced *script) {
  int now = 1;
  for (int line = 1; line <= last; line++)
    for (size_t i = 0; i < m->variables.len; i++) {
      plim_make_variable *v = &m->variables.at[i];
      bool is_here = v->line == line || (line == last && v->line > last);
      bool is_exported = v->is_exported || m->exports_all;
      if (!is_here || !is_exported || !v->is_set || !is_shell_name(v->name)) continue;
      for (; now < line; now++) plim_sourced_put(script, '\n', PLIM_FROM_NOWHERE);
      write_export(m, v, script);
    }
}
