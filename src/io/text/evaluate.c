#include "evaluate.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, DEPTH = 32 };

typedef struct {
  const plim_evaluator *by;
  const char *at;
  int *steps, depth;
  bool takes_text;    // a text may be a number, as in int("8")
  bool in_arithmetic; // within $(( )) of a shell
} parser;

static bool sum(parser *p, plim_value *out);

// ---- numbers ----------------------------------------------------------------------------------------

static double real_of(const plim_value *v) {
  return v->kind == PLIM_VALUE_INTEGER ? (double)v->integer : v->real;
}

static bool put_real(double real, plim_value *out) {
  *out = (plim_value){.kind = PLIM_VALUE_REAL, .real = real};
  return isfinite(real);
}

static bool put_integer(int64_t integer, plim_value *out) {
  *out = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = integer};
  return true;
}

static bool is_number(const plim_value *v) {
  return v->kind == PLIM_VALUE_INTEGER || v->kind == PLIM_VALUE_REAL;
}

static bool put_whole(double real, plim_value *out) {
  return fabs(real) < 1e15 && put_integer((int64_t)real, out);
}

// Reads "8", "1_000" or "2.5e-4"; false unless the whole text is a number.
static bool read_digits(const char *text, size_t size, plim_value *out) {
  char digits[48], *end;
  size_t used = 0;
  bool is_real = false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '_') continue;
    if (used + 1 == sizeof digits) return false;
    is_real |= strchr(".eE", text[i]) != NULL;
    digits[used++] = text[i];
  }
  digits[used] = 0;
  if (!used || strpbrk(digits, "xXpPnN")) return false;
  double real = strtod(digits, &end);
  if (*end || (!is_real && used > 15)) return false;
  return is_real ? put_real(real, out) : put_integer((int64_t)real, out);
}

// Reads 8, 010 and 0x1F as shell arithmetic does; 08 and 1.5 are errors there.
static bool read_shell_digits(const char *text, size_t size, plim_value *out) {
  bool is_hex = size > 2 && text[0] == '0' && (text[1] | 32) == 'x';
  int base = is_hex ? 16 : *text == '0' ? 8 : 10;
  int64_t number = 0;
  if (!size) return false;
  for (size_t i = is_hex ? 2 : 0; i < size; i++) {
    int digit = isdigit((unsigned char)text[i])    ? text[i] - '0'
                : isxdigit((unsigned char)text[i]) ? (text[i] | 32) - 'a' + 10
                                                   : base;
    if (digit >= base || __builtin_mul_overflow(number, base, &number) ||
        __builtin_add_overflow(number, digit, &number))
      return false;
  }
  return put_integer(number, out);
}

bool plim_literal_number(const plim_value *value, plim_value *out) {
  *out = *value;
  if (is_number(value)) return true;
  return value->kind == PLIM_VALUE_TEXT && read_digits(value->text, strlen(value->text), out);
}

// ---- operators --------------------------------------------------------------------------------------

// Division that rounds towards minus infinity, as in Python.
static int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

static bool divide(const parser *p, bool is_floor, plim_value *a, const plim_value *b) {
  bool are_whole = a->kind == PLIM_VALUE_INTEGER && b->kind == PLIM_VALUE_INTEGER;
  if (real_of(b) == 0 || (are_whole && b->integer == -1 && a->integer == INT64_MIN)) return false;
  if (are_whole && p->by->is_shell) return put_integer(a->integer / b->integer, a);
  if (are_whole && is_floor) return put_integer(floor_quotient(a->integer, b->integer), a);
  double quotient = real_of(a) / real_of(b);
  return put_real(is_floor ? floor(quotient) : quotient, a);
}

static bool remainder_of(const parser *p, plim_value *a, const plim_value *b) {
  bool are_whole = a->kind == PLIM_VALUE_INTEGER && b->kind == PLIM_VALUE_INTEGER;
  if (!are_whole || b->integer == 0 || b->integer == -1) return false;
  int64_t rest = a->integer % b->integer;
  if (!p->by->is_shell && rest && (rest < 0) != (b->integer < 0)) rest += b->integer;
  return put_integer(rest, a);
}

static bool combine(char sign, plim_value *a, const plim_value *b) {
  int64_t whole;
  bool are_whole = a->kind == PLIM_VALUE_INTEGER && b->kind == PLIM_VALUE_INTEGER;
  double x = real_of(a), y = real_of(b);
  if (!are_whole) return put_real(sign == '*' ? x * y : sign == '+' ? x + y : x - y, a);
  bool overflows = sign == '*'   ? __builtin_mul_overflow(a->integer, b->integer, &whole)
                   : sign == '+' ? __builtin_add_overflow(a->integer, b->integer, &whole)
                                 : __builtin_sub_overflow(a->integer, b->integer, &whole);
  return !overflows && put_integer(whole, a);
}

static bool raise(plim_value *a, const plim_value *b) {
  double power = pow(real_of(a), real_of(b));
  bool are_whole = a->kind == PLIM_VALUE_INTEGER && b->kind == PLIM_VALUE_INTEGER;
  return are_whole && b->integer >= 0 ? put_whole(power, a) : put_real(power, a);
}

// ---- calls ------------------------------------------------------------------------------------------

typedef bool (*function)(plim_value *so_far, const plim_value *next); // next is NULL for the first

static bool whole(plim_value *v, const plim_value *next) {
  return !next && put_whole(trunc(real_of(v)), v);
}
static bool real(plim_value *v, const plim_value *next) { return !next && put_real(real_of(v), v); }
static bool up(plim_value *v, const plim_value *next) {
  return !next && put_whole(ceil(real_of(v)), v);
}
static bool down(plim_value *v, const plim_value *next) {
  return !next && put_whole(floor(real_of(v)), v);
}
static bool nearest(plim_value *v, const plim_value *next) {
  return !next && put_whole(nearbyint(real_of(v)), v);
}
static bool most(plim_value *v, const plim_value *next) {
  if (next && real_of(next) > real_of(v)) *v = *next;
  return true;
}
static bool least(plim_value *v, const plim_value *next) {
  if (next && real_of(next) < real_of(v)) *v = *next;
  return true;
}

static const struct {
  const char *name;
  function call;
} functions[] = {{"int", whole},       {"float", real}, {"round", nearest},
                 {"max", most},        {"min", least},  {"math.ceil", up},
                 {"math.floor", down}, {"ceil", up},    {"floor", down}};

static void skip_space(parser *p) {
  while (isspace((unsigned char)*p->at)) p->at++;
}

static bool take(parser *p, const char *sign) {
  skip_space(p);
  size_t size = strlen(sign);
  if (strncmp(p->at, sign, size) != 0) return false;
  p->at += size;
  return true;
}

static bool arguments(parser *p, function call, plim_value *out) {
  plim_value next;
  bool took_text = p->takes_text;
  p->takes_text = call == whole || call == real;
  bool ok = sum(p, out) && call(out, NULL);
  while (ok && take(p, ",")) ok = sum(p, &next) && call(out, &next);
  p->takes_text = took_text;
  return ok && take(p, ")");
}

static bool call_function(parser *p, const char *name, plim_value *out) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strcmp(functions[i].name, name) == 0) return arguments(p, functions[i].call, out);
  return false;
}

// ---- names ------------------------------------------------------------------------------------------

static bool is_in_name(char c, bool is_first) {
  return isalpha((unsigned char)c) || c == '_' || (!is_first && isdigit((unsigned char)c));
}

static bool add(char name[NAME_BYTES], const char *text, size_t size) {
  size_t used = strlen(name);
  if (used + size + 1 > NAME_BYTES) return false;
  memcpy(name + used, text, size);
  name[used + size] = 0;
  return true;
}

static bool read_identifier(parser *p, char name[NAME_BYTES]) {
  size_t size = 0;
  while (is_in_name(p->at[size], size == 0)) size++;
  const char *from = p->at;
  p->at += size;
  return size && add(name, from, size);
}

// Reads a quoted text; false if it contains escapes.
static bool read_quoted(parser *p, const char **text, size_t *size) {
  skip_space(p);
  char quote = *p->at;
  if (quote != '"' && quote != '\'') return false;
  const char *end = strchr(p->at + 1, quote);
  if (!end || memchr(p->at, '\\', (size_t)(end - p->at))) return false;
  *text = p->at + 1;
  *size = (size_t)(end - *text);
  p->at = end + 1;
  return true;
}

static bool look_up(parser *p, const char *name, plim_value *out) {
  plim_value found;
  if (!p->by->value_of || !p->by->value_of(p->by->context, name, &found)) return false;
  if (!p->in_arithmetic) return plim_literal_number(&found, out);
  if (found.kind == PLIM_VALUE_TEXT) return read_shell_digits(found.text, strlen(found.text), out);
  *out = found;
  return found.kind == PLIM_VALUE_INTEGER;
}

static void note_environment(const parser *p, const char *name) {
  static const char start[] = "os.environ.";
  if (p->by->environment && strncmp(name, start, sizeof start - 1) == 0)
    snprintf(p->by->environment, PLIM_ENVIRONMENT_BYTES, "%.*s", PLIM_ENVIRONMENT_BYTES - 1,
             name + sizeof start - 1);
}

// Evaluates the rest of NAME.get("key", default): the value of the key, or the default.
static bool get(parser *p, char name[NAME_BYTES], plim_value *out) {
  const char *key;
  size_t size;
  plim_value other;
  if (!read_quoted(p, &key, &size) || !add(name, ".", 1) || !add(name, key, size)) return false;
  bool took_text = p->takes_text;
  p->takes_text = true; // environment variables are texts
  bool has_other = take(p, ",") && sum(p, &other);
  p->takes_text = took_text;
  if (!take(p, ")")) return false;
  if (look_up(p, name, out)) return true;
  note_environment(p, name);
  if (has_other) *out = other;
  return has_other;
}

static bool subscript(parser *p, char name[NAME_BYTES]) {
  const char *key;
  size_t size;
  return read_quoted(p, &key, &size) && add(name, ".", 1) && add(name, key, size) && take(p, "]");
}

static bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), m = strlen(ending);
  return n >= m && strcmp(text + n - m, ending) == 0;
}

static bool call_named(parser *p, char name[NAME_BYTES], plim_value *out) {
  if (strcmp(name, "os.getenv") == 0 || strcmp(name, "getenv") == 0)
    return strcpy(name, "os.environ"), get(p, name, out);
  if (!ends_with(name, ".get")) return call_function(p, name, out);
  name[strlen(name) - strlen(".get")] = 0;
  if (strcmp(name, "environ") == 0) strcpy(name, "os.environ");
  return get(p, name, out);
}

static bool python_name(parser *p, plim_value *out) {
  char name[NAME_BYTES] = "";
  if (!read_identifier(p, name)) return false;
  for (;;) {
    if (*p->at == '.' && add(name, ".", 1)) {
      p->at++;
      if (!read_identifier(p, name)) return false;
    } else if (*p->at == '[') {
      p->at++;
      if (!subscript(p, name)) return false;
    } else break;
  }
  return take(p, "(") ? call_named(p, name, out) : look_up(p, name, out);
}

// Skips to the } of ${NAME} or ${NAME:-8} if NAME is set, because the default is then not used.
static bool close_braces(parser *p) {
  if (p->at[0] == ':' && (p->at[1] == '-' || p->at[1] == '=')) p->at += strcspn(p->at, "{}");
  return take(p, "}");
}

// Evaluates $NAME, ${NAME} and, in arithmetic, NAME.
static bool variable(parser *p, plim_value *out) {
  char name[NAME_BYTES] = "$";
  bool has_braces = strncmp(p->at, "${", 2) == 0;
  p->at += has_braces ? 2 : *p->at == '$';
  if (!read_identifier(p, name) || (has_braces && !close_braces(p))) return false;
  return look_up(p, name, out);
}

// Evaluates ${oc.env:NAME,default}, also inside ${oc.decode:...}.
static bool interpolation(parser *p, plim_value *out) {
  char name[NAME_BYTES] = "os.environ.";
  if (--*p->steps < 0) return false;
  if (take(p, "${oc.decode:")) return interpolation(p, out) && take(p, "}");
  if (!take(p, "${oc.env:")) return false;
  skip_space(p);
  if (!read_identifier(p, name) || !take(p, ",")) return false;
  p->takes_text = true;
  bool ok = sum(p, out) && take(p, "}");
  plim_value set;
  if (ok && look_up(p, name, &set)) *out = set;
  else note_environment(p, name);
  return ok;
}

// ---- expressions ------------------------------------------------------------------------------------

static bool number(parser *p, plim_value *out) {
  size_t size = 0;
  const char *at = p->at;
  for (char before = 0; isalnum((unsigned char)at[size]) || at[size] == '.' || at[size] == '_' ||
                        (strchr("+-", at[size]) && at[size] && strchr("eE", before) && before);
       size++)
    before = at[size];
  p->at += size;
  return p->in_arithmetic ? read_shell_digits(at, size, out) : read_digits(at, size, out);
}

static bool text(parser *p, plim_value *out) {
  const char *at;
  size_t size;
  return p->takes_text && read_quoted(p, &at, &size) && read_digits(at, size, out);
}

static bool arithmetic(parser *p, plim_value *out) {
  bool was_in = p->in_arithmetic;
  p->in_arithmetic = true;
  bool ok = take(p, "$((") && sum(p, out) && take(p, "))");
  p->in_arithmetic = was_in;
  return ok;
}

// Evaluates a word that consists of one expansion. Outside of $(( )) a shell only concatenates texts.
static bool shell_word(parser *p, plim_value *out) {
  bool is_quoted = take(p, "\"");
  bool ok = strncmp(p->at, "$((", 3) == 0 ? arithmetic(p, out) : *p->at == '$' && variable(p, out);
  return ok && (!is_quoted || take(p, "\""));
}

static bool atom(parser *p, plim_value *out) {
  if (take(p, "(")) return sum(p, out) && take(p, ")");
  if (isdigit((unsigned char)*p->at) || *p->at == '.') return number(p, out);
  if (!p->by->is_shell && *p->at == '$') return interpolation(p, out);
  if (!p->by->is_shell) return *p->at == '"' || *p->at == '\'' ? text(p, out) : python_name(p, out);
  return strncmp(p->at, "$((", 3) == 0 ? arithmetic(p, out) : variable(p, out);
}

static bool power(parser *p, plim_value *out);

static bool unary(parser *p, plim_value *out) {
  plim_value zero = {.kind = PLIM_VALUE_INTEGER};
  skip_space(p);
  if (--*p->steps < 0) return false;
  // $((++X)) changes X. In a shell, a sign binds more tightly than **.
  if (p->in_arithmetic && (strncmp(p->at, "++", 2) == 0 || strncmp(p->at, "--", 2) == 0))
    return false;
  if (take(p, "+")) return unary(p, out);
  if (!take(p, "-")) return p->in_arithmetic ? atom(p, out) : power(p, out);
  plim_value v;
  if (!unary(p, &v)) return false;
  *out = zero;
  return combine('-', out, &v);
}

static bool power(parser *p, plim_value *out) {
  plim_value exponent;
  if (p->depth > DEPTH || !(p->in_arithmetic ? unary(p, out) : atom(p, out))) return false;
  if (!take(p, "**")) return true;
  bool ok = p->in_arithmetic ? power(p, &exponent) : unary(p, &exponent);
  return ok && raise(out, &exponent) && (!p->in_arithmetic || out->kind == PLIM_VALUE_INTEGER);
}

static bool factor(parser *p, plim_value *out) {
  return p->in_arithmetic ? power(p, out) : unary(p, out);
}

static bool product(parser *p, plim_value *out) {
  plim_value next;
  if (!factor(p, out)) return false;
  for (;;) {
    bool is_floor = !p->in_arithmetic && take(p, "//"), ok;
    if (is_floor || take(p, "/")) ok = factor(p, &next) && divide(p, is_floor, out, &next);
    else if (take(p, "*")) ok = factor(p, &next) && combine('*', out, &next);
    else if (take(p, "%")) ok = factor(p, &next) && remainder_of(p, out, &next);
    else return true;
    if (!ok) return false;
  }
}

static bool sum(parser *p, plim_value *out) {
  plim_value next;
  p->depth++;
  bool ok = product(p, out);
  while (ok) {
    skip_space(p);
    char sign = *p->at;
    if (sign != '+' && sign != '-') break;
    p->at++;
    ok = product(p, &next) && combine(sign, out, &next);
  }
  p->depth--;
  return ok;
}

bool plim_evaluate(const char *text_, const plim_evaluator *by, plim_value *out) {
  int steps = PLIM_EVALUATE_STEPS;
  parser p = {.by = by, .at = text_, .steps = by->steps ? by->steps : &steps};
  plim_value v;
  bool ok = by->is_shell ? shell_word(&p, &v) : sum(&p, &v);
  skip_space(&p);
  if (!ok || *p.at) return false;
  *out = v;
  return true;
}
