// Reads the statements of a Python file: blocks, assignments, imports, functions and classes.
#include <string.h>

#include "conditions.h"
#include "python_reader.h"

// ---- tokens -----------------------------------------------------------------------------------------

bool plim_py_is(const plim_py_reader *r, size_t i, size_t end, uint8_t operator_) {
  return i < end && plim_py_at(r, i)->kind == PLIM_PY_OPERATOR &&
         plim_py_at(r, i)->what == operator_;
}

bool plim_py_is_word(const plim_py_reader *r, size_t i, size_t end, uint8_t word) {
  return i < end && plim_py_at(r, i)->kind == PLIM_PY_NAME && plim_py_at(r, i)->what == word;
}

bool plim_py_is_name(const plim_py_reader *r, size_t i, size_t end) {
  if (i >= end || plim_py_at(r, i)->kind != PLIM_PY_NAME) return false;
  return !plim_py_at(r, i)->what || plim_py_is_soft(plim_py_at(r, i));
}

bool plim_py_is_text(const plim_py_reader *r, size_t i, const char *name) {
  return strlen(name) == plim_py_size(r, i) && memcmp(name, plim_py_text(r, i), strlen(name)) == 0;
}

size_t plim_py_skip(const plim_py_reader *r, size_t i) {
  const plim_py_token *token = plim_py_at(r, i);
  return (token->match > i ? token->match : i) + 1;
}

size_t plim_py_find(const plim_py_reader *r, size_t i, size_t end, uint8_t operator_) {
  size_t lambdas = 0;
  for (; i < end; i = plim_py_skip(r, i)) {
    if (plim_py_is_word(r, i, end, PY_lambda)) lambdas++;
    else if (lambdas && plim_py_is(r, i, end, ':')) lambdas--;
    else if (!lambdas && plim_py_is(r, i, end, operator_)) return i;
  }
  return end;
}

bool plim_py_has_word(const plim_py_reader *r, size_t i, size_t end, uint8_t word) {
  for (; i < end; i = plim_py_skip(r, i))
    if (plim_py_is_word(r, i, end, word)) return true;
  return false;
}

void plim_py_fail_at(plim_py_reader *r, size_t byte, const char *why) {
  if (r->err) return;
  r->err = plim_fail(r->error, PLIM_ERR_PARSE, "%s", why);
  plim_error_at(r->error, byte);
}

void plim_py_no_memory(plim_py_reader *r) {
  if (!r->err) r->err = plim_fail(r->error, PLIM_ERR_NOMEM, "out of memory");
}

// ---- names ------------------------------------------------------------------------------------------

// Binds every name among the tokens that is not an attribute.
static void bind_names(plim_py_reader *r, uint32_t scope, size_t i, size_t end) {
  for (; i < end; i++)
    if (plim_py_is_name(r, i, end) && !(i && plim_py_is(r, i - 1, end, '.')))
      plim_py_bind(&r->names, scope, plim_py_text(r, i), plim_py_size(r, i));
}

// ---- assignments ------------------------------------------------------------------------------------

// Notes a new assignment to the path: entries that an earlier assignment put below it (of a dict) no longer hold.
static void forget_path(plim_py_reader *r) {
  if (!r->path.at) { // out of memory before
    plim_py_no_memory(r);
    return;
  }
  const char *key = r->path.at + r->path_base;
  size_t size = r->path.len - r->path_base;
  plim_py_replacement replacement = {plim_text_hash(0, key, size), (uint32_t)r->s->at.len};
  if (r->wanted && strncmp(r->wanted, key, size) == 0) r->place.is_found = false;
  if (!vec_push(&r->names.replacements, replacement)) plim_py_no_memory(r);
}

static void assign_path(plim_py_reader *r, size_t first, size_t i, size_t end, bool is_uncertain) {
  forget_path(r);
  r->is_uncertain = is_uncertain;
  if (r->block->where != PLIM_PY_IN_CLASS || !plim_py_field(r, first, i, end))
    plim_py_value(r, first, i, end);
  r->is_uncertain = false;
}

static bool is_reported(const plim_py_reader *r, size_t name) {
  return r->block->where != PLIM_PY_IN_FUNCTION ||
         plim_py_is_global(&r->names, r->block->scope, plim_py_text(r, name),
                           plim_py_size(r, name));
}

static size_t push_name(plim_py_reader *r, size_t name) {
  size_t before = r->path.len;
  if (r->block->where == PLIM_PY_IN_CLASS && r->class_path.len)
    plim_py_push(r, r->class_path.at, r->class_path.len);
  plim_py_push(r, plim_py_text(r, name), plim_py_size(r, name));
  return before;
}

static void assign_name(plim_py_reader *r, size_t name, size_t i, size_t end) {
  plim_py_assign(&r->names, r->block->scope, plim_py_text(r, name), plim_py_size(r, name));
  plim_py_note_alias(r, name, i, end);
  plim_py_note_link(r, name, i, end);
  plim_py_note_load(r, name, i, end);
  if (!is_reported(r, name)) {
    bool is_read =
        plim_py_assign_local(r, name, i, end) || plim_py_assign_local_dict(r, name, i, end);
    if (!is_read) plim_py_walk(r, i, end);
    return;
  }
  size_t before = push_name(r, name), from = r->s->at.len;
  assign_path(r, name, i, end, r->block->is_uncertain || r->block->where == PLIM_PY_IN_FUNCTION);
  plim_py_pop(r, before);
  if (r->block->where == PLIM_PY_IN_MODULE && plim_py_is_mapping(r, i, end))
    plim_py_note_dict(r, name, from, false);
}

static bool is_environment(const plim_chars *key) {
  return key->len > 11 && memcmp(key->at, "os.environ.", 11) == 0;
}

// Reads CONFIG["lr"] = 1, args.lr = 1 and os.environ["X"] = "1". Environment variables are global wherever they are
// set; other assignments are certain only at module level.
void plim_py_assign_element(plim_py_reader *r, size_t target, size_t i, size_t end) {
  plim_py_note_touch(r, target);
  bool is_in_function = r->block->where == PLIM_PY_IN_FUNCTION && !is_environment(&r->scratch);
  if (is_in_function) plim_py_note_parameter_change(r, target);
  if (is_in_function && !plim_py_is_own(r, target)) plim_py_note_local_change(r);
  bool is_certain = is_environment(&r->scratch) ||
                    (r->block->where == PLIM_PY_IN_MODULE && !r->block->is_uncertain);
  bool is_left_out = r->block->where == PLIM_PY_IN_CLASS ||
                     (plim_py_is_own(r, target) && r->block->where == PLIM_PY_IN_FUNCTION);
  if (is_left_out) {
    if (plim_py_is_own(r, target)) plim_py_note_own_change(r);
    plim_py_walk(r, i, end);
    return;
  }
  if (is_certain) plim_py_name_by_call(r, target);
  size_t before = plim_py_push(r, r->scratch.at, r->scratch.len);
  assign_path(r, target, i, end, !is_certain);
  plim_py_pop(r, before);
}

// A subscript or the arguments of a call within a target are only read, not assigned.
static bool is_trailer(const plim_py_reader *r, size_t first, size_t i, size_t end) {
  bool opens = plim_py_is(r, i, end, '[') || plim_py_is(r, i, end, '(');
  if (!opens || i == first) return false;
  return plim_py_is_name(r, i - 1, end) || plim_py_is(r, i - 1, end, ']') ||
         plim_py_is(r, i - 1, end, ')');
}

static bool is_whole_name(const plim_py_reader *r, size_t first, size_t i, size_t end) {
  bool is_attribute = i > first && plim_py_is(r, i - 1, end, '.');
  bool is_base = plim_py_is(r, i + 1, end, '.') || is_trailer(r, first, i + 1, end);
  return plim_py_is_name(r, i, end) && !is_attribute && !is_base;
}

// Reads targets that cannot be changed on their own: a, b = 1, 2 and a = b = 1 and a += 1. The statement goes from
// `first` to `end`; `kept` is its stored text, or NULL before the first call. Returns the stored text.
static const char *assign_together(plim_py_reader *r, size_t i, size_t targets_end, size_t first,
                                   size_t end, const char *kept) {
  while (i < targets_end && !r->err) {
    if (is_whole_name(r, first, i, end)) {
      plim_py_bind(&r->names, r->block->scope, plim_py_text(r, i), plim_py_size(r, i));
      size_t before = r->path.len;
      if (is_reported(r, i)) {
        push_name(r, i);
        forget_path(r);
        kept = plim_py_add_derived(r, first, end, kept);
      }
      plim_py_pop(r, before);
    }
    i = is_trailer(r, first, i, end) ? plim_py_skip(r, i) : i + 1;
  }
  return kept;
}

static bool is_element(plim_py_reader *r, size_t i, size_t end) {
  r->scratch.len = 0;
  return end - i > 1 && plim_py_reference_key(r, i, end, &r->scratch);
}

static void augment(plim_py_reader *r, size_t i, size_t sign, size_t end) {
  if (r->block->where == PLIM_PY_IN_FUNCTION) plim_py_note_parameter_change(r, i);
  if (is_element(r, i, sign) && r->block->where != PLIM_PY_IN_CLASS && !plim_py_is_own(r, i)) {
    plim_py_note_touch(r, i);
    plim_py_note_local_change(r);
    size_t before = plim_py_push(r, r->scratch.at, r->scratch.len);
    forget_path(r);
    plim_py_add_derived(r, i, end, NULL);
    plim_py_pop(r, before);
  } else {
    assign_together(r, i, sign, i, end, NULL);
    plim_py_note_targets(r, i, sign);
  }
  plim_py_walk(r, i, sign);
  plim_py_walk(r, sign + 1, end);
}

static void assign_one(plim_py_reader *r, size_t i, size_t target_end, size_t value, size_t end) {
  bool was_evaluation = r->is_of_evaluation;
  r->is_of_evaluation = plim_py_names_evaluation(r, i, target_end);
  if (target_end == i + 1 && plim_py_is_name(r, i, end)) assign_name(r, i, value, end);
  else if (is_element(r, i, target_end)) plim_py_assign_element(r, i, value, end);
  else {
    assign_together(r, i, target_end, i, end, NULL);
    plim_py_note_targets(r, i, target_end);
    plim_py_note_parsed(r, i, target_end, value, end);
    plim_py_walk(r, i, target_end);
    plim_py_walk(r, value, end);
  }
  r->is_of_evaluation = was_evaluation;
}

static void assign_several(plim_py_reader *r, size_t i, size_t sign, size_t end) {
  size_t first = i;
  const char *kept = NULL;
  for (; sign < end && !r->err; i = sign + 1, sign = plim_py_find(r, i, end, '=')) {
    kept = assign_together(r, i, sign, first, end, kept);
    plim_py_note_targets(r, i, sign);
    plim_py_walk(r, i, sign);
  }
  plim_py_walk(r, i, end);
}

static void assign(plim_py_reader *r, size_t i, size_t sign, size_t end) {
  size_t colon = plim_py_find(r, i, sign, ':');
  if (plim_py_find(r, sign + 1, end, '=') < end) assign_several(r, i, sign, end);
  else {
    if (colon < sign) plim_py_walk(r, colon + 1, sign);
    assign_one(r, i, colon, sign + 1, end);
  }
}

// ---- statements -------------------------------------------------------------------------------------

static void expression_or_assignment(plim_py_reader *r, size_t i, size_t end) {
  size_t sign = plim_py_find(r, i, end, '='),
         augmented = plim_py_find(r, i, end, PLIM_PY_AUGMENTED);
  if (augmented < end && augmented > i) augment(r, i, augmented, end);
  else if (sign < end && sign > i) assign(r, i, sign, end);
  else plim_py_walk(r, i, end);
}

// Reads del name, CONFIG["lr"].
static void delete (plim_py_reader *r, size_t i, size_t end) {
  for (size_t stop; i < end; i = stop + 1) {
    stop = plim_py_find(r, i, end, ',');
    if (stop == i + 1) bind_names(r, r->block->scope, i, stop);
    else plim_py_note_targets(r, i, stop);
    plim_py_walk(r, i, stop);
  }
}

static void statement(plim_py_reader *r, size_t i, size_t end) {
  if (i == end || r->err) return;
  uint8_t word = plim_py_at(r, i)->kind == PLIM_PY_NAME ? plim_py_at(r, i)->what : PY_NO_WORD;
  bool is_type = word == PY_type && plim_py_is_name(r, i + 1, end);
  if (is_type)
    plim_py_bind(&r->names, r->block->scope, plim_py_text(r, i + 1), plim_py_size(r, i + 1));
  else if (word == PY_global) plim_py_declare_globals(r, i + 1, end);
  else if (word == PY_nonlocal) plim_py_bind_nonlocals(r, i + 1, end);
  else if (word == PY_del) delete (r, i + 1, end);
  else if (word == PY_import || word == PY_from) bind_names(r, r->block->scope, i + 1, end);
  else if (word && !plim_py_is_soft(plim_py_at(r, i))) plim_py_walk(r, i, end);
  else expression_or_assignment(r, i, end);
  if (word == PY_return) plim_py_leave_early(r, i + 1 < end);
}

static void statements(plim_py_reader *r, const plim_py_block *block, size_t i, size_t end) {
  r->block = block;
  while (i < end && !r->err) {
    size_t stop = plim_py_find(r, i, end, ';');
    statement(r, i, stop);
    i = stop + 1;
  }
}

// ---- blocks -----------------------------------------------------------------------------------------

static bool is_main(const plim_py_reader *r, size_t i, size_t colon) {
  static const char *const mains[] = {"\"__main__\"", "'__main__'"};
  return colon == i + 4 && plim_py_is_text(r, i + 1, "__name__") &&
         plim_py_is_text(r, i + 2, "==") &&
         (plim_py_is_text(r, i + 3, mains[0]) || plim_py_is_text(r, i + 3, mains[1]));
}

// Opens a class. Its names are visible in its own lines only, not in its methods.
static void open_class(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner) {
  plim_py_walk(r, i + 2, colon);
  if (inner->where == PLIM_PY_IN_FUNCTION) {
    plim_py_bind(&r->names, inner->scope, plim_py_text(r, i + 1), plim_py_size(r, i + 1));
    return;
  }
  inner->where = PLIM_PY_IN_CLASS;
  inner->scope = plim_py_scope_new(&r->names, inner->function, NULL);
  if ((r->class_path.len && !vec_push(&r->class_path, '.')) ||
      !plim_chars_add(&r->class_path, plim_py_text(r, i + 1), plim_py_size(r, i + 1)))
    plim_py_no_memory(r);
  inner->class_size = r->class_path.len;
  if (r->class_path.len > PLIM_PY_MAX_KEY)
    inner->where = PLIM_PY_IN_FUNCTION; // the fields of the class are skipped
  plim_py_add_class(&r->names, r->class_path.at, r->class_path.len);
}

static void bind_parameters(plim_py_reader *r, uint32_t scope, size_t open) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    while (i < stop && !plim_py_is_name(r, i, stop)) i++;
    if (i >= stop) continue;
    plim_py_bind(&r->names, scope, plim_py_text(r, i), plim_py_size(r, i));
    plim_py_add_parameter(&r->names, scope, plim_py_text(r, i), plim_py_size(r, i));
  }
}

static void open_function(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner) {
  plim_py_bind(&r->names, inner->scope, plim_py_text(r, i + 1), plim_py_size(r, i + 1));
  inner->where = PLIM_PY_IN_FUNCTION;
  inner->is_uncertain = false;
  inner->is_of_evaluation |= plim_py_names_evaluation(r, i + 1, i + 2);
  const char *path = plim_py_function_path(r, i + 1, inner);
  inner->scope = inner->function = plim_py_scope_new(&r->names, inner->function, path);
  plim_py_note_function(r, i + 1, inner->scope);
  size_t open = plim_py_is(r, i + 2, colon, '[') ? plim_py_skip(r, i + 2) : i + 2;
  if (plim_py_is(r, open, colon, '(')) bind_parameters(r, inner->scope, open);
  plim_py_walk(r, i + 2, colon);
}

// Opens any other block. Only `with` and `if __name__ == "__main__"` certainly run their block.
static void open_other(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner) {
  uint8_t word = plim_py_at(r, i)->what;
  bool is_certain = word == PY_with || (word == PY_if && is_main(r, i, colon));
  size_t in = i + 1;
  while (in < colon && !plim_py_is_word(r, in, colon, PY_in)) in = plim_py_skip(r, in);
  if (word == PY_for) bind_names(r, inner->scope, i + 1, in);
  if (word == PY_case) bind_names(r, inner->scope, i + 1, colon);
  for (size_t k = i + 1, item = k; k < colon; k++)
    if (plim_py_is_word(r, k, colon, PY_as)) {
      bind_names(r, inner->scope, k + 1, plim_py_skip(r, k + 1));
      if (word == PY_with && plim_py_is_name(r, k + 1, colon)) plim_py_note_load(r, k + 1, item, k);
      item = k + 3; // after the name and its comma
    }
  plim_py_walk(r, i + 1, colon);
  plim_py_open_condition(r, i, colon, inner);
  inner->is_uncertain |= !is_certain;
  inner->is_match = word == PY_match;
}

static bool is_compound(const plim_py_reader *r, size_t end) {
  static const uint8_t words[] = {PY_if,     PY_elif,    PY_else, PY_for, PY_while, PY_try,
                                  PY_except, PY_finally, PY_with, PY_def, PY_class};
  for (size_t i = 0; i < sizeof words; i++)
    if (plim_py_is_word(r, 0, end, words[i])) return true;
  if (plim_py_is_word(r, 0, end, PY_async)) return true;
  bool ends_open = plim_py_is(r, end - 1, end, ':') && end > 2 && !plim_py_is(r, 1, end, ':');
  return (plim_py_is_word(r, 0, end, PY_match) && ends_open) ||
         (plim_py_is_word(r, 0, end, PY_case) && r->blocks[r->depth].is_match);
}

static void compound(plim_py_reader *r, size_t end) {
  size_t i = plim_py_is_word(r, 0, end, PY_async) ? 1 : 0, colon = plim_py_find(r, i, end, ':');
  bool is_class = plim_py_is_word(r, i, end, PY_class), is_def = plim_py_is_word(r, i, end, PY_def);
  if (i == end || colon == end || ((is_class || is_def) && !plim_py_is_name(r, i + 1, colon))) {
    plim_py_fail_at(r, plim_py_at(r, end - 1)->end, "this statement has no colon or no name");
    return;
  }
  plim_py_block inner = r->blocks[r->depth];
  inner.is_match = false;
  r->block = &r->blocks[r->depth];
  if (is_class) open_class(r, i, colon, &inner);
  else if (is_def) open_function(r, i, colon, &inner);
  else open_other(r, i, colon, &inner);
  r->next = inner;
  r->expects_block = colon + 1 == end;
  statements(r, &r->next, colon + 1, end);
}

static void enter_line(plim_py_reader *r) {
  int depth = r->x.depth;
  size_t byte = plim_py_at(r, 0)->begin;
  if (r->expects_block && depth != r->depth + 1)
    plim_py_fail_at(r, byte, "an indented block is expected here");
  else if (!r->expects_block && depth > r->depth)
    plim_py_fail_at(r, byte, "this line has an unexpected indent");
  if (r->expects_block) r->blocks[depth] = r->next;
  r->depth = depth;
  r->expects_block = false;
  r->class_path.len = r->blocks[depth].class_size;
}

static void read_line(plim_py_reader *r) {
  size_t end = r->x.tokens.len;
  r->line++;
  r->path.len = r->path_base = 0;
  if (!end) return;
  enter_line(r);
  if (r->err) return;
  if (is_compound(r, end)) compound(r, end);
  else statements(r, &r->blocks[r->depth], 0, end);
}

plim_err plim_py_read(plim_py_reader *r, plim_settings *s, const char *wanted, const char *part,
                      plim_error *error) {
  *r = (plim_py_reader){.s = s, .error = error, .wanted = wanted, .part = part};
  r->err = plim_py_lexer_open(&r->x, s->text, s->size, error);
  plim_py_scope_new(&r->names, 0, NULL);
  while (!r->err && plim_py_next_line(&r->x)) read_line(r);
  if (!r->err) r->err = r->x.err;
  if (!r->err && r->expects_block)
    plim_py_fail_at(r, s->size, "an indented block is expected here");
  if (!r->err) plim_py_settle_changes(r);
  if (!r->err) plim_py_settle_locals(r);
  if (!r->err) plim_py_settle_dicts(r);
  if (!r->err) plim_py_settle_unpackings(r);
  if (!r->err) plim_py_settle_uses(r);
  if (!r->err && !plim_py_resolve(&r->names, s)) plim_py_no_memory(r);
  if (!r->err) plim_py_settle_roots(r);
  if (!r->err) plim_conditions_decide(s);
  if (!r->err && !plim_py_compute(&r->names, s)) plim_py_no_memory(r);
  if (!r->err) plim_py_settle_models(s);
  return r->err;
}

void plim_py_reader_free(plim_py_reader *r) {
  plim_py_lexer_close(&r->x);
  plim_py_names_free(&r->names);
  vec_free(&r->class_path);
  vec_free(&r->path);
  vec_free(&r->scratch);
}
