// Reads the conditions of a Python file: the tests of `if`, `elif` and `else`.
#include <string.h>

#include "conditions.h"
#include "python_reader.h"

enum { MAX_DEPTH = 32, MAX_CONDITIONS = 1 << 16 };

// Adds a condition and returns its number; 0 means "always". Beyond MAX_CONDITIONS all conditions are unknown.
static uint32_t add(plim_py_reader *r, plim_condition condition) {
  if (r->s->conditions.len > MAX_CONDITIONS) return MAX_CONDITIONS + 1;
  if (r->s->conditions.len == MAX_CONDITIONS)
    condition = (plim_condition){.text = "too many conditions"};
  uint32_t number = plim_condition_add(r->s, condition);
  if (!number) plim_py_no_memory(r);
  return number;
}

uint32_t plim_py_both(plim_py_reader *r, uint32_t a, uint32_t b) {
  if (!a || !b || a == b) return a ? a : b;
  return add(r, (plim_condition){PLIM_IF_BOTH, .a = a, .b = b});
}
#define both plim_py_both

uint32_t plim_py_either(plim_py_reader *r, uint32_t a, uint32_t b) {
  if (!a || !b || a == b) return a == b ? a : 0;
  return add(r, (plim_condition){PLIM_IF_EITHER, .a = a, .b = b});
}

uint32_t plim_py_unknown(plim_py_reader *r, const char *text) {
  return add(r, (plim_condition){.text = text});
}

static uint32_t negate(plim_py_reader *r, uint32_t a) {
  return add(r, (plim_condition){PLIM_IF_NOT, .a = a});
}

// ---- tests ------------------------------------------------------------------------------------------

static const char *source(plim_py_reader *r, size_t i, size_t end) {
  size_t size = plim_py_at(r, end - 1)->end - plim_py_at(r, i)->begin;
  const char *kept = plim_settings_keep(r->s, plim_py_text(r, i), size < 80 ? size : 80);
  if (!kept) plim_py_no_memory(r);
  return kept ? kept : "";
}

static bool read_literal(plim_py_reader *r, size_t i, size_t end, plim_value *out) {
  plim_chars text = {0};
  uint8_t word =
      i + 1 == end && plim_py_at(r, i)->kind == PLIM_PY_NAME ? plim_py_at(r, i)->what : 0;
  bool is_word = word == PY_None || word == PY_True || word == PY_False;
  *out = (plim_value){.kind = word == PY_None ? PLIM_VALUE_NULL : PLIM_VALUE_BOOL,
                      .flag = word == PY_True};
  if (is_word) return true;
  if (i + 1 == end && plim_py_at(r, i)->kind == PLIM_PY_NUMBER)
    return plim_number_read(plim_py_text(r, i), plim_py_size(r, i), false, PLIM_NUMBERS_PYTHON,
                            out) == PLIM_NUMBER_OK;
  bool is_text = plim_py_strings(r, i, end, &text);
  if (is_text)
    *out = (plim_value){.kind = PLIM_VALUE_TEXT,
                        .text = plim_settings_keep(r->s, text.at ? text.at : "", text.len)};
  vec_free(&text);
  return is_text && out->text;
}

// The default in cfg.get("lora", False); None if get has no second argument. False if it is not such a call.
static bool read_otherwise(plim_py_reader *r, size_t i, size_t stop, plim_value *out) {
  size_t open = stop > i ? plim_py_at(r, stop - 1)->match : i;
  bool is_get = stop > i + 4 && plim_py_is(r, stop - 1, stop, ')') && open > i + 1 &&
                plim_py_is_text(r, open - 1, "get");
  if (!is_get) return false;
  size_t comma = plim_py_find(r, open + 1, stop - 1, ',');
  *out = (plim_value){0};
  return comma + 1 >= stop - 1 || read_literal(r, comma + 1, stop - 1, out);
}

// Adds a condition on the name, with attributes and subscripts, from `i` to `stop`; the whole test goes to `end`.
static uint32_t test_name(plim_py_reader *r, size_t i, size_t stop, size_t end,
                          plim_condition condition) {
  plim_chars key = {0};
  bool is_name = plim_py_reference_key(r, i, stop, &key) && key.len <= PLIM_PY_MAX_KEY;
  condition.text = source(r, i, end);
  if (is_name) condition.name = plim_settings_keep(r->s, key.at, key.len);
  if (is_name) condition.has_otherwise = read_otherwise(r, i, stop, &condition.otherwise);
  else condition.kind = PLIM_IF_UNKNOWN;
  vec_free(&key);
  uint32_t number = add(r, condition);
  plim_py_test test = {number,
                       {.setting = (uint32_t)r->s->at.len,
                        .scope = r->block->scope,
                        .line = r->line,
                        .base_size = (uint32_t)plim_py_size(r, i),
                        .key = condition.name}};
  if (number && condition.name && !vec_push(&r->names.tests, test)) plim_py_no_memory(r);
  return number;
}

// Tests that are true whenever a model is trained on a GPU.
static bool always_holds(const plim_py_reader *r, size_t i, size_t end) {
  static const char *const calls[] = {"is_available", "is_bf16_supported", "is_bfloat16_supported",
                                      "is_torch_bf16_gpu_available"};
  size_t last = plim_py_dotted(r, i, end);
  if (last == end) return false;
  if (plim_py_is_text(r, last, "do_train") && last + 1 == end) return true;
  bool is_call = plim_py_is(r, last + 1, end, '(') && plim_py_at(r, last + 1)->match + 1 == end;
  for (size_t k = 0; is_call && k < sizeof calls / sizeof *calls; k++)
    if (plim_py_is_text(r, last, calls[k])) return true;
  return false;
}

// ---- comparisons ------------------------------------------------------------------------------------

typedef struct {
  size_t at, value; // of the operator, and of the value after it
  bool is_negated;
} comparison;

static bool find_comparison(const plim_py_reader *r, size_t i, size_t end, comparison *out) {
  for (; i < end; i = plim_py_skip(r, i)) {
    bool is_is = plim_py_is_word(r, i, end, PY_is), is_unequal = plim_py_is_text(r, i, "!=");
    if (!is_is && !is_unequal && !plim_py_is_text(r, i, "==")) continue;
    bool is_not = is_is && plim_py_is_word(r, i + 1, end, PY_not);
    *out = (comparison){i, i + 1 + is_not, is_not || is_unequal};
    return true;
  }
  return false;
}

// ---- and, or, not -----------------------------------------------------------------------------------

static size_t find_word(const plim_py_reader *r, size_t i, size_t end, uint8_t word) {
  while (i < end && !plim_py_is_word(r, i, end, word)) i = plim_py_skip(r, i);
  return i < end ? i : end;
}

static uint32_t read_condition(plim_py_reader *r, size_t i, size_t end, int depth);

static uint32_t read_simple(plim_py_reader *r, size_t i, size_t end) {
  plim_value literal;
  comparison c;
  if (find_comparison(r, i, end, &c)) {
    plim_condition condition = {PLIM_IF_EQUAL};
    if (!read_literal(r, c.value, end, &condition.literal)) condition.kind = PLIM_IF_UNKNOWN;
    uint32_t number = test_name(r, i, c.at, end, condition);
    return c.is_negated ? negate(r, number) : number;
  }
  if (always_holds(r, i, end)) return add(r, (plim_condition){PLIM_IF_ALWAYS});
  if (!read_literal(r, i, end, &literal))
    return test_name(r, i, end, end, (plim_condition){PLIM_IF_TRUE});
  return add(r, (plim_condition){PLIM_IF_TRUE, .text = source(r, i, end), .given = literal,
                                 .is_given = true});
}

static uint32_t read_two(plim_py_reader *r, size_t i, size_t word, size_t end, int depth,
                         plim_condition_kind kind) {
  uint32_t a = read_condition(r, i, word, depth + 1),
           b = read_condition(r, word + 1, end, depth + 1);
  return a && b ? add(r, (plim_condition){kind, .a = a, .b = b}) : 0;
}

static uint32_t read_condition(plim_py_reader *r, size_t i, size_t end, int depth) {
  while (end - i > 2 && plim_py_is(r, i, end, '(') && plim_py_at(r, i)->match + 1 == end)
    i++, end--;
  if (i >= end) return 0;
  if (depth > MAX_DEPTH) return add(r, (plim_condition){.text = source(r, i, end)});
  size_t either = find_word(r, i, end, PY_or), joint = find_word(r, i, end, PY_and);
  if (either < end) return read_two(r, i, either, end, depth, PLIM_IF_EITHER);
  if (joint < end) return read_two(r, i, joint, end, depth, PLIM_IF_BOTH);
  if (!plim_py_is_word(r, i, end, PY_not)) return read_simple(r, i, end);
  uint32_t inner = read_condition(r, i + 1, end, depth + 1);
  return inner ? negate(r, inner) : 0;
}

// ---- blocks -----------------------------------------------------------------------------------------

static bool is_main(const plim_py_reader *r, size_t i, size_t end) {
  return plim_py_is_name(r, i, end) && plim_py_is_text(r, i, "__name__");
}

// It is unknown which case matches; `case _` matches if no other does.
static void open_case(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner) {
  plim_py_block *block = &r->blocks[r->depth];
  uint32_t before = block->otherwise ? block->otherwise : block->condition;
  bool is_rest = colon == i + 2 && plim_py_is_text(r, i + 1, "_");
  uint32_t mine = is_rest ? 0 : add(r, (plim_condition){.text = source(r, i, colon)});
  inner->condition = both(r, before, mine);
  block->otherwise = mine ? both(r, before, negate(r, mine)) : before;
}

void plim_py_open_condition(plim_py_reader *r, size_t i, size_t colon, plim_py_block *inner) {
  plim_py_block *block = &r->blocks[r->depth];
  uint8_t word = plim_py_at(r, i)->what;
  if (word == PY_case) {
    inner->otherwise = 0;
    open_case(r, i, colon, inner);
    return;
  }
  uint32_t before = word == PY_elif || word == PY_else ? block->otherwise : block->condition;
  inner->otherwise = 0;
  if (word == PY_else) inner->condition = before ? before : block->condition;
  if (word != PY_if && word != PY_elif) {
    block->otherwise = block->condition;
    return;
  }
  uint32_t mine = is_main(r, i + 1, colon) ? 0 : read_condition(r, i + 1, colon, 0);
  inner->condition = both(r, before, mine);
  block->otherwise = mine ? both(r, before, negate(r, mine)) : before;
}

// After a conditional `return`, the rest of the function runs only if the condition does not hold. A return without a
// value usually ends the run, so the rest then likely runs.
void plim_py_leave_early(plim_py_reader *r, bool has_value) {
  bool is_in_line = r->block == &r->next;
  plim_py_block *around = is_in_line ? &r->blocks[r->depth] : NULL;
  if (!is_in_line && r->depth > 0) around = &r->blocks[r->depth - 1];
  uint32_t mine = r->block->condition;
  bool is_inside = around && around->where == PLIM_PY_IN_FUNCTION &&
                   r->block->where == around->where && r->block->function == around->function;
  if (!is_inside || !mine || mine == around->condition) return;
  uint32_t rest = negate(r, mine);
  if (rest && !has_value) rest = add(r, (plim_condition){PLIM_IF_LIKELY, .a = rest});
  around->condition = both(r, around->condition, rest);
}

typedef struct {
  size_t word, other; // `if` and `else`; other: the end if there is none
} choice;

static bool find_choice(const plim_py_reader *r, size_t i, size_t end, choice *out) {
  size_t word = find_word(r, i, end, PY_if), other = find_word(r, word, end, PY_else);
  *out = (choice){word, other};
  return i < word && word + 1 < other && other + 1 < end && find_word(r, i, word, PY_for) == word &&
         find_word(r, i, word, PY_lambda) == word && plim_py_find(r, i, word, ',') == word;
}

bool plim_py_walk_choice(plim_py_reader *r, size_t i, size_t end) {
  choice c;
  if (!find_choice(r, i, end, &c) || r->nesting > MAX_DEPTH) return false;
  r->nesting++;
  uint32_t outer = r->condition, around = outer ? outer : r->block->condition;
  uint32_t mine = read_condition(r, c.word + 1, c.other, 0);
  plim_py_walk(r, c.word + 1, c.other);
  r->condition = both(r, around, mine);
  plim_py_walk(r, i, c.word);
  r->condition = mine ? both(r, around, negate(r, mine)) : around;
  plim_py_walk(r, c.other + 1, end);
  r->condition = outer;
  r->nesting--;
  return true;
}

// ---- values -----------------------------------------------------------------------------------------

// torch.bfloat16 is a literal.
static bool value_of(plim_py_reader *r, size_t i, size_t end, plim_value *out) {
  if (read_literal(r, i, end, out)) {
    if (out->kind == PLIM_VALUE_NULL) *out = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "null"};
    return true;
  }
  bool is_dotted = plim_py_dotted(r, i, end) + 1 == end && end - i > 1;
  if (!is_dotted || !plim_py_is_text(r, i, "torch")) return false;
  *out = (plim_value){.kind = PLIM_VALUE_DERIVED, .text = source(r, i, end)};
  return true;
}

enum {
  LONGEST_TRUTH = 256
}; // tokens; longer expressions are not analysed, because each word is searched to the end

// Whether the form of the expression shows that its value is True or False.
static bool is_truth(const plim_py_reader *r, size_t i, size_t end) {
  comparison c;
  if (end - i > LONGEST_TRUTH) return false;
  size_t either = find_word(r, i, end, PY_or), joint = find_word(r, i, end, PY_and);
  if (either < end) return is_truth(r, either + 1, end);
  if (joint < end) return is_truth(r, joint + 1, end);
  return plim_py_is_word(r, i, end, PY_not) || always_holds(r, i, end) ||
         find_comparison(r, i, end, &c);
}

uint32_t plim_py_condition(plim_py_reader *r, size_t i, size_t end) {
  return read_condition(r, i, end, 0);
}

void plim_py_note_choice(plim_py_reader *r, size_t i, size_t end) {
  choice c;
  plim_value values[2] = {{.kind = PLIM_VALUE_BOOL}, {.kind = PLIM_VALUE_BOOL, .flag = true}};
  bool is_choice = find_choice(r, i, end, &c);
  bool is_known =
      is_choice && value_of(r, c.other + 1, end, &values[0]) && value_of(r, i, c.word, &values[1]);
  if (is_choice ? !is_known : !is_truth(r, i, end)) return;
  uint32_t condition =
      is_choice ? read_condition(r, c.word + 1, c.other, 0) : read_condition(r, i, end, 0);
  plim_setting *x = &r->s->at.at[r->s->at.len - 1];
  x->chooses = condition;
  memcpy(x->choices, values, sizeof values);
}

bool plim_py_is_choice(plim_py_reader *r, size_t i, size_t end) {
  choice c;
  bool is_dotted = plim_py_dotted(r, i, end) + 1 == end && end - i > 1;
  return find_choice(r, i, end, &c) || (is_dotted && plim_py_is_text(r, i, "torch"));
}
