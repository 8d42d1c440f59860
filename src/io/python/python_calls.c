// Reads calls with a special meaning: add_argument, os.environ.setdefault, dict and others.
#include <stdio.h>
#include <string.h>

#include "key_names.h"
#include "python_reader.h"

static bool is_keyword(const plim_py_reader *r, size_t i, size_t stop, const char *name) {
  return plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=') &&
         (!name || plim_py_is_text(r, i, name));
}

// Walks the value of an argument that is not a setting itself.
static void walk_argument(plim_py_reader *r, size_t i, size_t stop) {
  plim_py_walk(r, is_keyword(r, i, stop, NULL) ? i + 2 : i, stop);
}

// ---- names ------------------------------------------------------------------------------------------

size_t plim_py_dotted(const plim_py_reader *r, size_t i, size_t end) {
  if (!plim_py_is_name(r, i, end)) return end;
  while (plim_py_is(r, i + 1, end, '.') && plim_py_is_name(r, i + 2, end)) i += 2;
  return i;
}

size_t plim_py_call_name(plim_py_reader *r, size_t first, size_t last, char out[PLIM_PY_MAX_NAME],
                         bool is_counted) {
  size_t size = 0;
  for (size_t i = first; i <= last; i++) {
    if (size + plim_py_size(r, i) > PLIM_PY_MAX_NAME - 16) return 0;
    memcpy(out + size, plim_py_text(r, i), plim_py_size(r, i));
    size += plim_py_size(r, i);
  }
  uint32_t earlier = plim_py_calls(&r->names, out, size);
  if (is_counted) plim_py_count_call(&r->names, out, size);
  if (earlier) size += (size_t)snprintf(out + size, 16, "#%u", earlier + 1);
  return size;
}

// ---- methods ----------------------------------------------------------------------------------------

void plim_py_method_flag(plim_py_reader *r, size_t last) {
  static const char *const flags[] = {"gradient_checkpointing_enable",
                                      "gradient_checkpointing_disable",
                                      "enable_input_require_grads"};
  size_t byte = plim_py_at(r, last)->end;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (!plim_py_is_text(r, last, flags[i])) continue;
    size_t before = plim_py_push(r, flags[i], strlen(flags[i]));
    plim_py_add_flag(r, byte, last, last, (plim_value){.kind = PLIM_VALUE_BOOL, .flag = true});
    plim_py_pop(r, before);
  }
}

void plim_py_flag_method(plim_py_reader *r, size_t last) {
  size_t base = r->path_base, before = r->path.len;
  r->path_base = r->path.len;
  plim_py_method_flag(r, last);
  r->path_base = base;
  plim_py_pop(r, before);
}

// ---- evaluation -------------------------------------------------------------------------------------

bool plim_py_names_evaluation(const plim_py_reader *r, size_t i, size_t end) {
  bool is_found = false;
  for (; i < end; i++) {
    uint8_t kind = plim_py_at(r, i)->kind;
    if (kind != PLIM_PY_NAME && kind != PLIM_PY_STRING) continue;
    if (plim_name_is_of(PLIM_OF_TRAINING, plim_py_text(r, i), plim_py_size(r, i))) return false;
    is_found |= plim_name_is_of(PLIM_OF_EVALUATION, plim_py_text(r, i), plim_py_size(r, i));
  }
  return is_found;
}

bool plim_py_takes_evaluation(const plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match, stop = plim_py_find(r, open + 1, close, ',');
  for (size_t i = open + 1; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    bool is_data =
        is_keyword(r, i, stop, "dataset") || (i == open + 1 && !is_keyword(r, i, stop, NULL));
    if (is_data) return plim_py_names_evaluation(r, i, stop);
  }
  return false;
}

// ---- models -----------------------------------------------------------------------------------------

static bool has_part(const plim_py_reader *r, size_t i, const char *part) {
  size_t size = strlen(part);
  const char *text = plim_py_text(r, i), *end = text + plim_py_size(r, i);
  for (; text + size <= end; text++)
    if (memcmp(text, part, size) == 0) return true;
  return false;
}

// AutoModelForCausalLM, LlamaForCausalLM, FastLanguageModel; not PeftModel (adapters), tokenizers or configurations.
static bool is_model_class(const plim_py_reader *r, size_t i) {
  return (has_part(r, i, "Model") || has_part(r, i, "For")) && !has_part(r, i, "Peft") &&
         !has_part(r, i, "Token") && !has_part(r, i, "Config") && !has_part(r, i, "Processor");
}

const char *plim_py_first_argument(const plim_py_reader *r, size_t first, size_t last) {
  if (plim_py_is_text(r, last, "SentenceTransformer")) return "model_name_or_path";
  if (last > first && plim_py_is_text(r, last, "fit")) return "train_objectives";
  bool loads = last > first && plim_py_is_text(r, last, "from_pretrained");
  if (!loads || !is_model_class(r, last - 2)) return NULL;
  return has_part(r, last - 2, "Fast") ? "model_name" : "pretrained_model_name_or_path";
}

// ---- parser.add_argument ----------------------------------------------------------------------------

typedef struct {
  plim_chars flag, destination,
      action;       // texts; flag is "--batch-size", or "-b" if there is no long one
  plim_chars alias; // the other flag of add_argument("-b", "--batch-size")
  bool is_required, has_action, has_default;
} argument;

static bool is_long(const plim_chars *flag) {
  return flag->len > 1 && flag->at[0] == '-' && flag->at[1] == '-';
}

static void read_flag(plim_py_reader *r, size_t i, size_t stop, argument *a) {
  plim_chars text = {0};
  bool is_flag = plim_py_strings(r, i, stop, &text) && text.len > 1 && text.at[0] == '-';
  if (is_flag && (!a->flag.len || (is_long(&text) && !is_long(&a->flag)))) {
    plim_chars before = a->flag;
    a->flag = text;
    text = before;
  }
  if (is_flag && text.len && !a->alias.len) {
    plim_chars none = a->alias;
    a->alias = text;
    text = none;
  }
  vec_free(&text);
}

static void read_options(plim_py_reader *r, size_t open, argument *a) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (is_keyword(r, i, stop, "dest")) plim_py_strings(r, i + 2, stop, &a->destination);
    else if (is_keyword(r, i, stop, "default")) a->has_default = true;
    else if (is_keyword(r, i, stop, "required"))
      a->is_required = !plim_py_is_word(r, i + 2, stop, PY_False);
    else if (is_keyword(r, i, stop, "action")) {
      a->has_action = true;
      plim_py_strings(r, i + 2, stop, &a->action);
    } else if (!is_keyword(r, i, stop, NULL)) read_flag(r, i, stop, a);
  }
}

static bool has_text(const plim_chars *chars, const char *text) {
  return chars->len == strlen(text) && memcmp(chars->at, text, chars->len) == 0;
}

// The value that argparse stores by default; false if it is unknown.
static bool value_without_default(const argument *a, plim_value *value) {
  bool is_true = has_text(&a->action, "store_true"), is_false = has_text(&a->action, "store_false");
  *value = (plim_value){.kind = is_true || is_false ? PLIM_VALUE_BOOL : PLIM_VALUE_NULL,
                        .flag = is_false};
  return !a->is_required &&
         (!a->has_action || is_true || is_false || has_text(&a->action, "store"));
}

// Notes the attribute that stores the argument: --batch-size is stored as batch_size.
static void note_destination(plim_py_reader *r, argument *a, uint32_t setting) {
  plim_chars *name = a->destination.len ? &a->destination : &a->flag;
  size_t dashes = 0;
  if (name == &a->flag) {
    while (dashes < name->len && name->at[dashes] == '-') dashes++;
    for (size_t i = dashes; i < name->len; i++)
      if (name->at[i] == '-') name->at[i] = '_';
  }
  plim_py_add_destination(&r->names, name->at + dashes, name->len - dashes, setting);
}

static void read_argument(plim_py_reader *r, size_t first, size_t open, argument *a) {
  size_t close = plim_py_at(r, open)->match;
  plim_value value;
  plim_py_note_place(r, open, true);
  uint32_t setting = UINT32_MAX;
  for (size_t i = open + 1, stop; i < close && !r->err; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (is_keyword(r, i, stop, "default")) {
      setting = (uint32_t)r->s->at.len;
      plim_py_value(r, i, i + 2, stop);
    } else walk_argument(r, i, stop);
  }
  bool takes_value = !a->has_action || has_text(&a->action, "store");
  bool is_open = takes_value && !a->has_default;
  if (!a->has_default && (value_without_default(a, &value) || is_open)) {
    size_t last = close - 1 - plim_py_is(r, close - 1, close, ',');
    setting = (uint32_t)r->s->at.len;
    plim_py_add_flag(r, plim_py_at(r, last)->end, first, last, value);
  }
  if (setting >= r->s->at.len) return;
  r->s->at.at[setting].is_open = is_open;
  r->s->at.at[setting].is_required = is_open && a->is_required;
  note_destination(r, a, setting);
  if (a->alias.len)
    r->s->at.at[setting].alias = plim_settings_keep(r->s, a->alias.at, a->alias.len);
}

static void add_argument(plim_py_reader *r, size_t first, size_t last, size_t open) {
  argument a = {0};
  size_t before = r->path.len;
  read_options(r, open, &a);
  for (size_t i = first; i + 1 < last; i += 2)
    plim_py_push(r, plim_py_text(r, i), plim_py_size(r, i));
  if (a.flag.len) {
    plim_py_push(r, a.flag.at, a.flag.len);
    read_argument(r, first, open, &a);
  } else
    plim_py_walk(r, open + 1, plim_py_at(r, open)->match); // positional arguments are not settings
  plim_py_pop(r, before);
  vec_free(&a.flag);
  vec_free(&a.alias);
  vec_free(&a.destination);
  vec_free(&a.action);
}

// ---- os.environ -------------------------------------------------------------------------------------

static bool is_environment(const plim_py_reader *r, size_t first, size_t last) {
  bool is_whole = last == first + 4 && plim_py_is_text(r, first, "os") &&
                  plim_py_is_text(r, first + 2, "environ");
  return is_whole || (last == first + 2 && plim_py_is_text(r, first, "environ"));
}

// os.environ.setdefault("NAME", value)
static void set_default(plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match, comma = plim_py_find(r, open + 1, close, ',');
  size_t stop = comma < close ? plim_py_find(r, comma + 1, close, ',') : close;
  size_t before = plim_py_push(r, "os.environ.", 11);
  if (comma < close && plim_py_entry_key(r, open + 1, comma, &r->path))
    plim_py_value(r, open + 1, comma + 1, stop);
  else plim_py_walk(r, open + 1, close);
  plim_py_pop(r, before);
}

// os.environ.update({"NAME": value}, NAME=value)
static void update(plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close && !r->err; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    size_t before = plim_py_push(r, "os.environ", 10);
    bool is_named = is_keyword(r, i, stop, NULL);
    if (is_named) plim_py_push(r, plim_py_text(r, i), plim_py_size(r, i));
    if (is_named || plim_py_is(r, i, stop, '{')) plim_py_value(r, i, is_named ? i + 2 : i, stop);
    else plim_py_walk(r, i, stop);
    plim_py_pop(r, before);
  }
}

// ---- fields of dataclasses --------------------------------------------------------------------------

// The token at which the default of field(...) begins; that of the closing bracket if there is none.
static size_t default_of(const plim_py_reader *r, size_t open, bool takes_position) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    if (is_keyword(r, i, stop, "default")) return i + 2;
    bool is_plain = !is_keyword(r, i, stop, NULL) && !plim_py_is(r, i, stop, '*') &&
                    !plim_py_is(r, i, stop, PLIM_PY_POWER);
    if (takes_position && i == open + 1 && is_plain) return i;
  }
  return close;
}

bool plim_py_field(plim_py_reader *r, size_t first, size_t i, size_t end) {
  size_t last = plim_py_dotted(r, i, end), open = last + 1;
  if (last == end || !plim_py_is(r, open, end, '(') || plim_py_at(r, open)->match + 1 != end)
    return false;
  bool is_pydantic = plim_py_is_text(r, last, "Field");
  if (!is_pydantic && !plim_py_is_text(r, last, "field")) return false;
  size_t close = end - 1, value = default_of(r, open, is_pydantic);
  if (value == close) plim_py_add_derived(r, i, end, NULL);
  for (size_t k = open + 1, stop; k < close && !r->err; k = stop + 1) {
    stop = plim_py_find(r, k, close, ',');
    if (value >= k && value < stop) plim_py_value(r, first, value, stop);
    else walk_argument(r, k, stop);
  }
  return true;
}

// ---- all of them ------------------------------------------------------------------------------------

bool plim_py_special_call(plim_py_reader *r, size_t first, size_t last, size_t open) {
  bool is_dict = first == last && plim_py_is_text(r, last, "dict"); // not assigned to a name
  if (is_environment(r, first, last) && plim_py_is_text(r, last, "setdefault"))
    set_default(r, open);
  else if (is_environment(r, first, last) && plim_py_is_text(r, last, "update")) update(r, open);
  else if (last > first && plim_py_is_text(r, last, "add_argument"))
    add_argument(r, first, last, open);
  else if (is_dict) plim_py_walk(r, open + 1, plim_py_at(r, open)->match);
  else return false;
  return true;
}
