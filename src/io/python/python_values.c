// Reads the values of a Python file: literals, dicts, calls and other expressions.
#include <stdio.h>
#include <string.h>

#include "python_literal.h"
#include "python_reader.h"

enum {
  MAX_NESTING = 32,      // of values in values; deeper ones are skipped
  MAX_SETTINGS = 1 << 18 // every file of CPython's library has less than a tenth of it
};

// ---- paths ------------------------------------------------------------------------------------------

size_t plim_py_push(plim_py_reader *r, const char *text, size_t size) {
  size_t before = r->path.len;
  if ((before > r->path_base && !vec_push(&r->path, '.')) || !plim_chars_add(&r->path, text, size))
    plim_py_no_memory(r);
  return before;
}

static bool add_escaped(plim_chars *out, const char *text, size_t size) {
  bool ok = true;
  for (size_t i = 0; ok && i < size; i++) {
    if (text[i] == '.' || text[i] == '\\') ok = vec_push(out, '\\');
    ok = ok && vec_push(out, text[i]);
  }
  return ok;
}

void plim_py_pop(plim_py_reader *r, size_t size) { r->path.len = size; }

// The last line of a token. Settings of one statement often end with the same token, so the last result is kept.
static uint32_t last_line_of(plim_py_reader *r, size_t token) {
  const plim_py_token *at = plim_py_at(r, token);
  if (r->last_token == at->begin && r->last_line) return r->last_line;
  uint32_t line = at->line;
  for (const char *c = r->x.text + at->begin; c < r->x.text + at->end; c++)
    line += *c == '\n' || (*c == '\r' && c[1] != '\n');
  r->last_token = at->begin;
  return r->last_line = line;
}

// ---- settings ---------------------------------------------------------------------------------------

static void add_setting(plim_py_reader *r, size_t first, size_t last, plim_setting setting) {
  size_t size = r->path.len - r->path_base;
  if (r->err || size > PLIM_PY_MAX_KEY || !size) return;
  if (r->s->at.len == MAX_SETTINGS) {
    r->err = plim_fail(r->error, PLIM_ERR_UNSUPPORTED, "the file has more than %d settings",
                       MAX_SETTINGS);
    return;
  }
  setting.comment =
      plim_comment_of(&r->x.comments, r->s, plim_py_at(r, first)->line, last_line_of(r, last));
  setting.key = plim_settings_keep(r->s, r->path.at + r->path_base, size);
  setting.is_of_evaluation = r->is_of_evaluation || r->block->is_of_evaluation;
  setting.condition = r->condition ? r->condition : r->block->condition;
  if (!r->err &&
      (!vec_push(&r->names.owners, r->block->function) || !plim_settings_add(r->s, setting)))
    plim_py_no_memory(r);
}

static const char *keep_source(plim_py_reader *r, plim_span span) {
  size_t size = span.end - span.begin;
  if (size > PLIM_PY_MAX_SOURCE) {
    size = PLIM_PY_MAX_SOURCE;
    while ((r->x.text[span.begin + size] & 0xc0) == 0x80) size--;
  }
  const char *kept = plim_settings_keep(r->s, r->x.text + span.begin, size);
  if (!kept) plim_py_no_memory(r);
  return kept;
}

static plim_span span_of(const plim_py_reader *r, size_t i, size_t end) {
  return (plim_span){plim_py_at(r, i)->begin, plim_py_at(r, end - 1)->end};
}

const char *plim_py_add_derived(plim_py_reader *r, size_t i, size_t end, const char *kept) {
  if (r->err) return NULL;
  plim_span span = span_of(r, i, end);
  if (!kept) kept = keep_source(r, span);
  plim_value value = {.kind = PLIM_VALUE_DERIVED, .text = kept};
  add_setting(r, i, end - 1,
              (plim_setting){.value = value, .span = span, .line = (int)plim_py_at(r, i)->line});
  return kept;
}

void plim_py_add_flag(plim_py_reader *r, size_t byte, size_t first, size_t last, plim_value value) {
  add_setting(
      r, first, last,
      (plim_setting){.value = value, .span = {byte, byte}, .line = (int)last_line_of(r, last)});
}

// ---- literals and references ------------------------------------------------------------------------

static bool read_word(const plim_py_reader *r, size_t i, size_t end, plim_value *value) {
  if (end - i != 1 || plim_py_at(r, i)->kind != PLIM_PY_NAME) return false;
  uint8_t word = plim_py_at(r, i)->what;
  *value = (plim_value){.kind = word == PY_None ? PLIM_VALUE_NULL : PLIM_VALUE_BOOL,
                        .flag = word == PY_True};
  return word == PY_None || word == PY_True || word == PY_False;
}

static bool read_number(const plim_py_reader *r, size_t i, size_t end, plim_value *value) {
  bool is_negative = plim_py_is(r, i, end, '-');
  if (is_negative || plim_py_is(r, i, end, '+')) i++;
  if (end - i != 1 || plim_py_at(r, i)->kind != PLIM_PY_NUMBER) return false;
  return plim_number_read(plim_py_text(r, i), plim_py_size(r, i), is_negative, PLIM_NUMBERS_PYTHON,
                          value) == PLIM_NUMBER_OK;
}

bool plim_py_strings(plim_py_reader *r, size_t i, size_t end, plim_chars *out) {
  bool is_text = i < end;
  for (size_t k = i; k < end; k++)
    if (plim_py_at(r, k)->kind != PLIM_PY_STRING) return false;
  for (; i < end; i++)
    if (!plim_py_decode(plim_py_text(r, i), plim_py_size(r, i), out, &is_text))
      plim_py_no_memory(r);
  return is_text;
}

static bool read_text(plim_py_reader *r, size_t i, size_t end, plim_value *value) {
  plim_chars text = {0};
  bool is_text = plim_py_strings(r, i, end, &text);
  if (is_text) {
    *value = (plim_value){.kind = PLIM_VALUE_TEXT,
                          .text = plim_settings_keep(r->s, text.at ? text.at : "", text.len)};
    if (!value->text) plim_py_no_memory(r);
  }
  vec_free(&text);
  return is_text;
}

bool plim_py_entry_key(plim_py_reader *r, size_t i, size_t end, plim_chars *out) {
  plim_value value;
  plim_chars text = {0};
  char digits[32];
  bool is_key = plim_py_strings(r, i, end, &text);
  if (is_key && !add_escaped(out, text.at, text.len)) plim_py_no_memory(r);
  vec_free(&text);
  if (is_key || !read_number(r, i, end, &value) || value.kind != PLIM_VALUE_INTEGER) return is_key;
  snprintf(digits, sizeof digits, "%lld", (long long)value.integer);
  if (!plim_chars_add_text(out, digits)) plim_py_no_memory(r);
  return true;
}

// Appends the subscript of CONFIG["lr"] or the argument of CONFIG.get("lr", 1); returns the token after it, or 0.
static size_t add_subscript(plim_py_reader *r, size_t i, size_t end, plim_chars *out) {
  bool is_get = plim_py_is(r, i, end, '.') && i + 2 < end && plim_py_is_text(r, i + 1, "get") &&
                plim_py_is(r, i + 2, end, '(');
  if (is_get) i += 2;
  else if (!plim_py_is(r, i, end, '[')) return 0;
  size_t close = plim_py_at(r, i)->match, stop = plim_py_find(r, i + 1, close, ',');
  if (close >= end || (!is_get && stop != close)) return 0;
  if (!vec_push(out, '.')) plim_py_no_memory(r);
  return plim_py_entry_key(r, i + 1, stop, out) ? close + 1 : 0;
}

bool plim_py_reference_key(plim_py_reader *r, size_t i, size_t end, plim_chars *out) {
  if (!plim_py_is_name(r, i, end)) return false;
  if (plim_py_is_text(r, i, "environ") && !plim_chars_add_text(out, "os.")) plim_py_no_memory(r);
  if (!plim_chars_add(out, plim_py_text(r, i), plim_py_size(r, i))) plim_py_no_memory(r);
  for (i++; i < end;) {
    bool is_dict = plim_py_is(r, i, end, '.') && i + 2 < end &&
                   plim_py_is_text(r, i + 1, "__dict__") && plim_py_is(r, i + 2, end, '[');
    if (is_dict) i += 2; // args.__dict__["lr"] is args.lr
    size_t next = add_subscript(r, i, end, out);
    if (!next && plim_py_is(r, i, end, '.') && plim_py_is_name(r, i + 1, end)) {
      if (!vec_push(out, '.') ||
          !plim_chars_add(out, plim_py_text(r, i + 1), plim_py_size(r, i + 1)))
        plim_py_no_memory(r);
      next = i + 2;
    }
    if (!next) return false;
    i = next;
  }
  return !r->err;
}

static const char *keep_class_key(plim_py_reader *r, const plim_chars *key) {
  if (r->block->where != PLIM_PY_IN_CLASS) return NULL;
  plim_chars whole = {0};
  const char *kept = NULL;
  if (plim_chars_add(&whole, r->class_path.at, r->class_path.len) && vec_push(&whole, '.') &&
      plim_chars_add(&whole, key->at, key->len))
    kept = plim_settings_keep(r->s, whole.at, whole.len);
  vec_free(&whole);
  if (!kept) plim_py_no_memory(r);
  return kept;
}

static void note_reference(plim_py_reader *r, uint32_t setting, size_t i, size_t end) {
  plim_chars key = {0};
  if (plim_py_reference_key(r, i, end, &key) && key.len <= PLIM_PY_MAX_KEY) {
    plim_py_reference reference = {.setting = setting,
                                   .scope = r->block->scope,
                                   .line = r->line,
                                   .base_size = (uint32_t)plim_py_size(r, i),
                                   .key = plim_settings_keep(r->s, key.at, key.len),
                                   .class_key = keep_class_key(r, &key)};
    if (plim_py_is_text(r, i, "environ")) reference.base_size = 2; // os
    if (reference.key) plim_py_add_reference(&r->names, reference);
    else plim_py_no_memory(r);
  }
  vec_free(&key);
}

// ---- dicts ------------------------------------------------------------------------------------------

static bool is_dict(const plim_py_reader *r, size_t i, size_t end) {
  if (!plim_py_is(r, i, end, '{') || plim_py_at(r, i)->match + 1 != end) return false;
  size_t stop = plim_py_find(r, i + 1, end - 1, ',');
  if (stop == i + 1) return stop == end - 1; // {}
  if (plim_py_has_word(r, i + 1, stop, PY_for)) return false;
  return plim_py_is(r, i + 1, stop, PLIM_PY_POWER) || plim_py_find(r, i + 1, stop, ':') < stop;
}

// The last **other of a dict; 0 if there is none. Entries before it may be overwritten by it.
static size_t last_unpacking(const plim_py_reader *r, size_t i, size_t close) {
  size_t found = 0;
  for (size_t stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (plim_py_is(r, i, stop, PLIM_PY_POWER)) found = i;
  }
  return found;
}

static void read_entry(plim_py_reader *r, size_t i, size_t end) {
  size_t colon = plim_py_find(r, i, end, ':');
  size_t before = plim_py_push(r, "", 0);
  if (colon < end && plim_py_entry_key(r, i, colon, &r->path)) plim_py_value(r, i, colon + 1, end);
  else plim_py_walk(r, i, end);
  plim_py_pop(r, before);
}

static void read_dict(plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match, unpacking = last_unpacking(r, open + 1, close);
  size_t base = 0; // the name that was unpacked last
  bool was_uncertain = r->is_uncertain;
  plim_py_note_place(r, open, false);
  for (size_t i = open + 1, stop; i < close && !r->err; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    r->is_uncertain = was_uncertain || i < unpacking;
    bool unpacks = plim_py_is(r, i, stop, PLIM_PY_POWER);
    if (i < unpacking && unpacks && plim_py_is_name(r, i + 1, stop))
      plim_py_note_mutation(r, i + 1); // {**base, **other}
    if (unpacks) plim_py_note_rest(r, i + 1, stop);
    if (unpacks && stop == i + 2 && plim_py_is_name(r, i + 1, stop)) {
      base = i + 1;
      plim_py_unpack(&r->names, r->block->scope, plim_py_text(r, base), plim_py_size(r, base));
    }
    size_t colon = base ? plim_py_find(r, i, stop, ':') : stop;
    if (colon < stop) plim_py_note_overridden(r, base, i, colon);
    read_entry(r, i, stop);
  }
  r->is_uncertain = was_uncertain;
}

// ---- values -----------------------------------------------------------------------------------------

static void unwrap(const plim_py_reader *r, size_t *i, size_t *end) {
  while (*end - *i > 2 && plim_py_is(r, *i, *end, '(') && plim_py_at(r, *i)->match + 1 == *end &&
         plim_py_find(r, *i + 1, *end - 1, ',') == *end - 1)
    ++*i, --*end;
}

static bool read_literal(plim_py_reader *r, size_t i, size_t end, plim_value *value) {
  return read_word(r, i, end, value) || read_number(r, i, end, value) ||
         read_text(r, i, end, value);
}

bool plim_py_local(plim_py_reader *r, size_t first, size_t i, size_t end) {
  plim_value value;
  if (i >= end) return false;
  unwrap(r, &i, &end);
  bool is_literal = read_literal(r, i, end, &value);
  if (!is_literal && !plim_py_is_choice(r, i, end)) return false;
  if (!is_literal)
    value = (plim_value){.kind = PLIM_VALUE_DERIVED, .text = keep_source(r, span_of(r, i, end))};
  add_setting(r, first, end - 1,
              (plim_setting){.value = value,
                             .span = span_of(r, i, end),
                             .line = (int)plim_py_at(r, i)->line,
                             .is_faint = true});
  if (!is_literal) plim_py_note_choice(r, i, end);
  if (!is_literal) plim_py_walk(r, i, end);
  return true;
}

static void read_plain(plim_py_reader *r, size_t first, size_t i, size_t end) {
  plim_value value;
  bool is_literal = read_literal(r, i, end, &value);
  if (is_literal && !r->is_uncertain) {
    add_setting(r, first, end - 1,
                (plim_setting){.value = value,
                               .span = span_of(r, i, end),
                               .line = (int)plim_py_at(r, i)->line});
    return;
  }
  size_t before = r->s->at.len;
  plim_py_add_derived(r, r->is_uncertain ? first : i, end, NULL);
  if (!is_literal && !r->is_uncertain && r->s->at.len > before) {
    note_reference(r, (uint32_t)before, i, end);
    plim_py_note_expression(r, (uint32_t)before);
    plim_py_note_choice(r, i, end);
  }
  plim_py_walk(r, i, end);
}

static bool is_dict_call(const plim_py_reader *r, size_t i, size_t end) {
  return plim_py_is_name(r, i, end) && plim_py_is_text(r, i, "dict") &&
         plim_py_is(r, i + 1, end, '(') && plim_py_at(r, i + 1)->match + 1 == end;
}

bool plim_py_is_mapping(const plim_py_reader *r, size_t i, size_t end) {
  if (i >= end) return false;
  unwrap(r, &i, &end);
  return is_dict_call(r, i, end) || is_dict(r, i, end);
}

static void read_arguments(plim_py_reader *r, size_t open, const char *model, bool is_mapping);

void plim_py_value(plim_py_reader *r, size_t first, size_t i, size_t end) {
  if (i >= end || r->err) return;
  unwrap(r, &i, &end);
  if (r->nesting >= MAX_NESTING) {
    plim_py_walk(r, i, end);
    return;
  }
  r->nesting++;
  if (is_dict(r, i, end)) read_dict(r, i);
  else if (is_dict_call(r, i, end)) read_arguments(r, i + 1, NULL, true);
  else read_plain(r, first, i, end);
  r->nesting--;
}

// ---- calls ------------------------------------------------------------------------------------------

// The name in vars(args), asdict(config), config.__dict__ or config.to_dict(); `end` if it is none of them.
static size_t name_shown(const plim_py_reader *r, size_t i, size_t end) {
  size_t last = plim_py_dotted(r, i, end);
  if (last == end) return end;
  bool is_whole = plim_py_is(r, last + 1, end, '(') && plim_py_at(r, last + 1)->match + 1 == end;
  bool shows = plim_py_is_text(r, last, "vars") || plim_py_is_text(r, last, "asdict");
  if (is_whole && shows && end == last + 4 && plim_py_is_name(r, last + 2, end)) return last + 2;
  bool is_attribute = last == i + 2 && last + 1 == end && plim_py_is_text(r, last, "__dict__");
  bool is_method =
      last == i + 2 && is_whole && end == last + 3 && plim_py_is_text(r, last, "to_dict");
  return is_attribute || is_method ? i : end;
}

void plim_py_note_rest(plim_py_reader *r, size_t i, size_t end) {
  size_t before = plim_py_push(r, "**", 2), setting = r->s->at.len, shown = name_shown(r, i, end);
  if (i < end) plim_py_add_derived(r, i, end, NULL);
  plim_py_pop(r, before);
  if (r->err || r->s->at.len == setting) return;
  r->s->at.at[setting].is_rest = true;
  plim_py_unpacking unpacking = {.scope = r->block->scope,
                                 .setting = (uint32_t)setting,
                                 .call_from = r->call_from,
                                 .is_shown = shown < end};
  size_t name = shown < end ? shown : i;
  if (shown < end || (end == i + 1 && plim_py_is_name(r, i, end))) {
    unpacking.name = plim_py_text(r, name);
    unpacking.size = (uint32_t)plim_py_size(r, name);
  }
  if (!vec_push(&r->names.unpackings, unpacking)) plim_py_no_memory(r);
  note_reference(r, (uint32_t)setting, i, end);
}

// Reads an unpacked mapping. The entries of f(**{**base, "lr": 1}) and f(**dict(base, lr=1)) are arguments like others.
static void unpack(plim_py_reader *r, size_t i, size_t end) {
  size_t sign = i - 1;
  unwrap(r, &i, &end);
  plim_py_note_unpacked(r, sign, i, end);
  if (plim_py_is_mapping(r, i, end)) {
    plim_py_value(r, i, i, end);
    return;
  }
  plim_py_note_rest(r, i, end);
  plim_py_walk(r, i, end);
}

// Reads the model, which may be the first positional argument; returns the token after it.
static size_t read_model(plim_py_reader *r, size_t open, const char *name) {
  size_t close = plim_py_at(r, open)->match, i = open + 1;
  size_t stop = plim_py_find(r, i, close, ','), from = r->s->at.len;
  bool is_named = plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=');
  bool is_unpacked = plim_py_is(r, i, stop, '*') || plim_py_is(r, i, stop, PLIM_PY_POWER);
  if (i >= stop || is_named || is_unpacked) return open + 1;
  size_t before = plim_py_push(r, name, strlen(name));
  plim_py_value(r, i, i, stop);
  plim_py_pop(r, before);
  bool is_derived = r->s->at.len > from && r->s->at.at[from].value.kind == PLIM_VALUE_DERIVED;
  if (is_derived) r->s->at.at[from].is_faint = true; // until its root is found
  return stop + 1;
}

static void read_arguments(plim_py_reader *r, size_t open, const char *model, bool is_mapping) {
  size_t close = plim_py_at(r, open)->match, base = 0; // the name in dict(base, lr=1)
  plim_py_note_place(r, open, true);
  size_t begin = model ? read_model(r, open, model) : open + 1;
  for (size_t i = begin, stop; i < close && !r->err; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=')) {
      size_t before = plim_py_push(r, plim_py_text(r, i), plim_py_size(r, i));
      if (base) plim_py_note_overridden(r, base, i, i + 1);
      plim_py_note_unpacked(r, i, i + 2, stop);
      plim_py_value(r, i, i + 2, stop);
      plim_py_pop(r, before);
    } else if (plim_py_is(r, i, stop, PLIM_PY_POWER)) unpack(r, i + 1, stop);
    else {
      if (is_mapping && i < stop) plim_py_note_rest(r, i, stop);
      if (is_mapping && stop == i + 1 && plim_py_is_name(r, i, stop)) {
        base = i;
        plim_py_unpack(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
      }
      plim_py_walk(r, i, stop);
    }
  }
}

void plim_py_arguments(plim_py_reader *r, size_t open) { read_arguments(r, open, NULL, false); }

static void read_call(plim_py_reader *r, size_t first, size_t last, size_t open) {
  size_t base = r->path_base, before = r->path.len;
  bool was_uncertain = r->is_uncertain, was_evaluation = r->is_of_evaluation;
  bool was_given = r->is_given, was_shown = r->is_shown, was_built = r->is_built;
  char name[PLIM_PY_MAX_NAME];
  r->is_given = !plim_py_only_looks(r, last);
  r->is_shown |= !r->is_given;
  r->is_built = *plim_py_text(r, last) >= 'A' && *plim_py_text(r, last) <= 'Z';
  r->builds |= r->is_built || plim_py_is_text(r, last, "from_pretrained");
  r->path_base = r->path.len;
  r->is_uncertain = false;
  uint32_t outer_from = r->call_from;
  r->call_from = (uint32_t)r->s->at.len;
  if (plim_py_takes_evaluation(r, open)) r->is_of_evaluation = true;
  plim_py_method_flag(r, last);
  if (!plim_py_special_call(r, first, last, open)) {
    size_t size = plim_py_call_name(r, first, last, name, true);
    if (size) {
      plim_py_push(r, name, size);
      if (!plim_py_autocast(r, first, last, open))
        read_arguments(r, open, plim_py_first_argument(r, first, last), false);
      plim_py_add_defaults(r, last, open);
    } else plim_py_walk(r, open + 1, plim_py_at(r, open)->match);
  }
  r->path_base = base;
  r->call_from = outer_from;
  r->is_uncertain = was_uncertain;
  r->is_of_evaluation = was_evaluation;
  r->is_given = was_given;
  r->is_shown = was_shown;
  r->is_built = was_built;
  plim_py_pop(r, before);
}

// Reads a name with its attributes and, if it is called, the call. Returns the token after it.
static size_t walk_name(plim_py_reader *r, size_t i, size_t end) {
  size_t last = plim_py_dotted(r, i, end);
  plim_py_use(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
  plim_py_note_site(r, last, last == i && !plim_py_is(r, last + 1, end, '('));
  if (!r->is_shown) plim_py_need(&r->names, plim_py_text(r, i), plim_py_size(r, i));
  if (plim_py_is(r, last + 1, end, PLIM_PY_WALRUS))
    plim_py_bind(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
  if (!plim_py_is(r, last + 1, end, '(')) return last + 1;
  plim_py_note_change(r, i, last, end);
  read_call(r, i, last, last + 1);
  return plim_py_skip(r, last + 1);
}

void plim_py_walk(plim_py_reader *r, size_t i, size_t end) {
  size_t object = end; // the last name at this level
  if (plim_py_walk_choice(r, i, end)) return;
  while (i < end && !r->err) {
    if (plim_py_is_name(r, i, end)) object = i;
    bool is_method = plim_py_is(r, i, end, '.') && plim_py_is_name(r, i + 1, end);
    if (plim_py_is_word(r, i, end, PY_for) || plim_py_is_word(r, i, end, PY_lambda))
      plim_py_bind_variables(r, i, end);
    if (is_method) {
      size_t open = plim_py_dotted(r, i + 1, end) + 1;
      plim_py_note_site(r, open - 1, false);
      if (plim_py_is(r, open, end, '(')) plim_py_flag_method(r, open - 1);
      if (plim_py_is(r, open, end, '(') && object < end && plim_py_changes_object(r, open - 1))
        plim_py_note_mutation(r, object);
      i = open;
    } else i = plim_py_is_name(r, i, end) ? walk_name(r, i, end) : i + 1;
  }
}
