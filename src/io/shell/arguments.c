#include "arguments.h"

#include <ctype.h>
#include <string.h>

#include "shell_pieces.h"
#include "shell_words.h"

// ---- one word ---------------------------------------------------------------------------------------

static bool is_head(char c) { return isalnum((unsigned char)c) || (c && strchr("_-.+~@/", c)); }

// The word without its quotes, if one pair encloses all of it.
static plim_span unwrap(const char *text, plim_span span, plim_word_context *place) {
  char first = span.end - span.begin >= 2 ? text[span.begin] : 0;
  plim_span inner = {span.begin + 1, span.end - 1};
  if (*place == PLIM_WORD_ELEMENT) return *place = PLIM_WORD_JSON, inner;
  if (*place != PLIM_WORD_WORD) return span;
  if (first == '"' && plim_shell_double_end(text, span) == span.end)
    return *place = PLIM_WORD_DOUBLE, inner;
  if (first == '\'' &&
      memchr(text + inner.begin, '\'', span.end - inner.begin) == (const void *)(text + inner.end))
    return *place = PLIM_WORD_SINGLE, inner;
  return span;
}

plim_argument plim_argument_at(const char *text, plim_span span, plim_word_context place) {
  plim_argument a = {.span = span, .place = place, .tail_place = place};
  plim_span inner = unwrap(text, span, &a.tail_place);
  size_t i = inner.begin;
  while (i < inner.end && is_head(text[i])) i++;
  a.has_tail = i < inner.end && text[i] == '=' && i > inner.begin;
  if (a.has_tail || i == inner.end) a.head = (plim_span){inner.begin, i};
  if (a.has_tail) a.tail = (plim_span){i + 1, inner.end};
  return a;
}

static size_t head_size(const plim_argument *a) { return a->head.end - a->head.begin; }

bool plim_argument_is(const char *text, const plim_argument *a, const char *word) {
  size_t n = strlen(word);
  return !a->has_tail && head_size(a) == n && memcmp(text + a->head.begin, word, n) == 0;
}

bool plim_argument_ends(const char *text, const plim_argument *a, const char *ending) {
  size_t n = strlen(ending);
  return !a->has_tail && head_size(a) >= n && memcmp(text + a->head.end - n, ending, n) == 0;
}

// ---- what a word is ---------------------------------------------------------------------------------

typedef struct {
  plim_shell_scanner *f;
  const plim_argument_list *list;
  const char *text;
  size_t i;
  bool saw_script;
} walk;

static const char *head(const walk *w, const plim_argument *a) { return w->text + a->head.begin; }

static bool is_negative_number(const walk *w, const plim_argument *a) {
  size_t n = head_size(a);
  char number[64];
  if (a->has_tail || n < 2 || n >= sizeof number || *head(w, a) != '-') return false;
  memcpy(number, head(w, a), n);
  number[n] = 0;
  return plim_value_of_text(number).kind != PLIM_VALUE_TEXT;
}

static bool is_long_flag(const walk *w, const plim_argument *a) {
  return head_size(a) > 2 && memcmp(head(w, a), "--", 2) == 0 &&
         isalpha((unsigned char)head(w, a)[2]);
}

static bool is_short_flag(const walk *w, const plim_argument *a) {
  return head_size(a) >= 2 && *head(w, a) == '-' && isalpha((unsigned char)head(w, a)[1]);
}

// The length of the sign before a Hydra override: a.b=c, +a.b=c, ++a.b=c or ~a.b. SIZE_MAX if it is not an override.
static size_t override_sign(const walk *w, const plim_argument *a) {
  size_t sign = 0, n = head_size(a);
  while (sign < n && sign < 2 && head(w, a)[sign] == '+') sign++;
  if (!sign && n && *head(w, a) == '~') sign = 1;
  bool is_removal = sign == 1 && *head(w, a) == '~';
  bool is_key = n > sign && (isalpha((unsigned char)head(w, a)[sign]) || head(w, a)[sign] == '_');
  return is_key && w->saw_script && w->list->has_overrides && (a->has_tail || is_removal)
             ? sign
             : SIZE_MAX;
}

// A variable that expands to any number of words: "$@", ${ARGS[@]}, $EXTRA_ARGS.
static bool is_many(const walk *w, const plim_argument *a) {
  static const char *const hints[] = {"ARGS",    "OPTS", "FLAGS", "PARAMS",
                                      "OPTIONS", "args", "opts",  "flags"};
  const char *at = w->text + a->span.begin;
  size_t size = a->span.end - a->span.begin;
  if (a->place != PLIM_WORD_WORD && a->place != PLIM_WORD_PIECE) return false;
  bool is_quoted = size > 2 && *at == '"';
  if (at[is_quoted] != '$' || memmem(at, size, "${#", 3)) return false;
  if (memmem(at, size, "$@", 2) || memmem(at, size, "[@]", 3)) return true;
  if (!is_quoted && (memmem(at, size, "$*", 2) || memmem(at, size, "[*]", 3))) return true;
  plim_span name = plim_reference_at(w->text, a->span);
  if (!name.end || is_quoted) return false;
  const char *key = plim_scanner_keep_span(w->f, w->text, name, "$");
  if (plim_names_count(&w->f->lists, key)) return true;
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (!plim_names_count(&w->f->set, key) && strstr(key, hints[i])) return true;
  return false;
}

// Flags of launchers that take no value.
static const char *const switches[] = {
    "--standalone", "--no-python", "--no_python", "--multi_gpu", "--multi-gpu",     "--use_env",
    "--use-env",    "--module",    "--no_ssh",    "--no-ssh",    "--no_local_rank", "--cpu",
};

static bool is_switch(const walk *w, const plim_argument *a) {
  for (size_t i = 0; i < sizeof switches / sizeof *switches && !w->saw_script; i++)
    if (plim_argument_is(w->text, a, switches[i])) return true;
  return false;
}

static bool is_script(const walk *w, const plim_argument *a) {
  return !w->saw_script && plim_argument_ends(w->text, a, ".py");
}

static bool can_be_value(const walk *w, const plim_argument *a) {
  if (!w->saw_script && plim_argument_launches(w->text, a)) return false;
  if (is_many(w, a) || is_script(w, a)) return false;
  size_t at = a->span.begin;
  at += a->span.end - at > 1 && strchr("'\"", w->text[at]);
  return w->text[at] != '-' || is_negative_number(w, a);
}

// Whether the word after a flag is its value. +a.b=c, and a.b=c after Hydra's own switches, are overrides instead.
static bool is_value_of(const walk *w, const plim_argument *flag, const plim_argument *a) {
  static const char *const hydra[] = {"--multirun", "-m",     "--resolve",   "--run",
                                      "-r",         "--info", "--hydra-help"};
  size_t sign = override_sign(w, a);
  for (size_t i = 0; i < sizeof hydra / sizeof *hydra; i++)
    if (sign != SIZE_MAX && plim_argument_is(w->text, flag, hydra[i])) return false;
  return (sign == 0 || sign == SIZE_MAX) && can_be_value(w, a);
}

static bool is_number(plim_value_kind kind) {
  return kind == PLIM_VALUE_INTEGER || kind == PLIM_VALUE_REAL;
}

// ---- settings ---------------------------------------------------------------------------------------

static const char *key_of(const walk *w, const plim_argument *a, size_t sign) {
  plim_span name = {a->head.begin + sign, a->head.end};
  return plim_scanner_keep_span(w->f, w->text, name, w->list->prefix);
}

static plim_shell_value with_place(const walk *w, plim_shell_value found, const plim_argument *a) {
  found.name = key_of(w, a, 0);
  found.group = w->list->group;
  found.order = w->list->order + (w->list->is_list ? 0 : w->i);
  found.word = a->span;
  found.gap = w->i ? w->list->at[w->i - 1].span.end : 0;
  found.is_aside = w->list->is_aside;
  return found;
}

// The number of values of a flag, which must be of one kind: --betas 0.9 0.95, --lora_target_modules q_proj v_proj.
static size_t count_values(const walk *w, const plim_shell_value *first) {
  size_t n = 1;
  if (!w->saw_script || first->value.kind == PLIM_VALUE_DERIVED) return 1;
  for (size_t i = w->i + 2; i < w->list->count; i++, n++) {
    const plim_argument *a = &w->list->at[i];
    if (override_sign(w, a) != SIZE_MAX || !can_be_value(w, a)) break;
    plim_shell_value next = plim_scanner_read(w->f, w->text, a->span, a->place, NULL);
    if (next.value.kind == PLIM_VALUE_DERIVED ||
        is_number(next.value.kind) != is_number(first->value.kind))
      break;
  }
  return n;
}

static void add_separate(walk *w, const plim_argument *a) {
  const plim_argument *value = a + 1;
  plim_shell_value found = plim_scanner_read(w->f, w->text, value->span, value->place, NULL);
  size_t n = count_values(w, &found);
  if (n > 1) {
    found.span = (plim_span){value->span.begin, value[n - 1].span.end};
    found.value = (plim_value){.kind = PLIM_VALUE_TEXT,
                               .text = plim_scanner_keep_span(w->f, w->text, found.span, "")};
    found.is_several = true;
  }
  plim_scanner_add(w->f, with_place(w, found, a));
  w->i += n;
}

static void add_joined(walk *w, const plim_argument *a) {
  plim_shell_value found = plim_scanner_read(w->f, w->text, a->tail, a->tail_place, NULL);
  found.is_joined = true;
  plim_scanner_add(w->f, with_place(w, found, a));
}

static void add_bare(walk *w, const plim_argument *a) {
  plim_shell_value found = {.value = {.kind = PLIM_VALUE_BOOL, .flag = true}, .is_bare = true};
  found.span = (plim_span){a->span.end, a->span.end};
  found.place = a->place;
  plim_scanner_add(w->f, with_place(w, found, a));
}

// Whether the flag may have a value after variables that may be empty: --lr $EXTRA 4.
static bool may_have_value(const walk *w) {
  size_t i = w->i + 1;
  while (i < w->list->count && is_many(w, &w->list->at[i])) i++;
  return i > w->i + 1 && i < w->list->count && can_be_value(w, &w->list->at[i]);
}

static void find_flag(walk *w, const plim_argument *a) {
  bool has_next = w->i + 1 < w->list->count && !is_switch(w, a) && is_value_of(w, a, a + 1);
  if (a->has_tail) add_joined(w, a);
  else if (has_next) add_separate(w, a);
  else if (is_long_flag(w, a)) {
    size_t from = w->f->at.len;
    add_bare(w, a);
    if (may_have_value(w)) plim_scanner_doubt(w->f, from, w->text, "unless the next word is empty");
  }
}

// Whether Hydra computes the value or sweeps over it: it has a comma outside of brackets, a call or a reference.
static bool is_hydra_computed(const char *text) {
  int depth = 0;
  for (const char *c = text; *c; c++) {
    depth += (*c == '[' || *c == '{') - (*c == ']' || *c == '}');
    if ((*c == ',' && depth <= 0) || *c == '(' || (*c == '$' && c[1] == '{')) return true;
  }
  return false;
}

static void read_hydra(plim_shell_scanner *f, plim_shell_value *found, const char *text) {
  const char *value = found->value.text;
  size_t n = found->value.kind == PLIM_VALUE_TEXT ? strlen(value) : 0;
  if (!n) return;
  if (n >= 2 && strchr("'\"", *value) && value[n - 1] == *value && !strchr(value, '\\') &&
      strchr(value + 1, *value) == value + n - 1)
    found->value.text = plim_scanner_keep(f, value + 1, n - 2);
  else if (strcmp(value, "null") == 0) found->value = (plim_value){.kind = PLIM_VALUE_NULL};
  else if (is_hydra_computed(value))
    found->value = (plim_value){.kind = PLIM_VALUE_DERIVED,
                                .text = plim_scanner_keep_span(f, text, found->span, "")};
}

static void find_override(walk *w, const plim_argument *a, size_t sign) {
  plim_shell_value found = {.span = {a->span.end, a->span.end}, .place = a->place};
  if (a->has_tail) found = plim_scanner_read(w->f, w->text, a->tail, a->tail_place, NULL);
  if (a->has_tail) read_hydra(w->f, &found, w->text);
  found = with_place(w, found, a);
  found.kind = PLIM_FOUND_OVERRIDE;
  found.name = key_of(w, a, sign);
  found.is_joined = a->has_tail;
  plim_scanner_add(w->f, found);
}

// Whether the module after python -m is a launcher; its script follows.
static bool is_launching_module(const walk *w, const plim_argument *a) {
  return plim_argument_ends(w->text, a, "distributed.run") ||
         plim_argument_ends(w->text, a, "distributed.launch") ||
         plim_argument_ends(w->text, a, "commands.launch") ||
         plim_argument_ends(w->text, a, "launcher.runner") ||
         plim_argument_ends(w->text, a, "torchrun");
}

// False if the script is a variable: then the launcher's flags cannot be distinguished from the script's.
static bool names_script(const plim_argument_list *list) {
  for (size_t i = 0; i < list->count; i++)
    if (plim_argument_ends(list->text, &list->at[i], ".py") ||
        plim_argument_is(list->text, &list->at[i], "-m"))
      return true;
  return false;
}

// Notes a word that expands to any number of words or to a computed flag.
static void note_expansion(walk *w, const plim_argument *a) {
  const char *at = w->text + a->span.begin;
  size_t size = a->span.end - a->span.begin;
  plim_expansion e = {.group = w->list->group, .at = a->span.begin, .scope = w->f->scope};
  e.order = w->list->order + (w->list->is_list ? 0 : w->i);
  if (a->place != PLIM_WORD_WORD && a->place != PLIM_WORD_PIECE) return;
  bool is_flag = *at == '-' && !a->head.end;
  bool is_position = memmem(at, size, "$@", 2) || (*at == '$' && memmem(at, size, "$*", 2)) ||
                     memmem(at, size, "{@", 2) ||
                     (*at == '$' && size > 1 && isdigit((unsigned char)at[1]));
  bool is_computed = *at == '`' || (size > 1 && memcmp(at, "$(", 2) == 0);
  plim_span rest = {a->span.begin + 2, a->span.end};
  plim_span name = is_flag && size > 3 ? plim_reference_at(w->text, rest)
                                       : plim_shell_list_name(w->text, a->span);
  bool is_quoted = *at == '"' && !memmem(at, size, "[@]", 3);
  if (!is_flag && !is_position && !is_computed && (!name.end || is_quoted)) return;
  if (is_position && !w->f->in_function && !w->f->has_own_positions) return;
  if (name.end) e.name = plim_scanner_keep_span(w->f, w->text, name, "$");
  e.is_flag = is_flag;
  if (!vec_push(&w->f->expansions, e)) w->f->is_out = true;
}

void plim_arguments_find(plim_shell_scanner *f, const plim_argument_list *list) {
  walk w = {f, list, list->text, 0, !list->expects_script || !names_script(list)};
  for (; w.i < list->count; w.i++) {
    const plim_argument *a = &list->at[w.i];
    size_t sign = override_sign(&w, a);
    bool is_module =
        !w.saw_script && plim_argument_is(list->text, a, "-m") && w.i + 1 < list->count;
    if (is_module) w.saw_script = !is_launching_module(&w, &list->at[++w.i]);
    else if (!w.saw_script && plim_argument_is(list->text, a, "-c")) return;
    else if (is_long_flag(&w, a) || is_short_flag(&w, a)) find_flag(&w, a);
    else if (sign != SIZE_MAX) find_override(&w, a, sign);
    else if (is_script(&w, a)) w.saw_script = true;
    else if (w.saw_script) note_expansion(&w, a);
  }
}
