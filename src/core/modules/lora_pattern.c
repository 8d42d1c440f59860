#include "lora_pattern.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>

enum { PATTERN_BYTES = 512 };

bool plim_lora_is_pattern(const char *targets) {
  return strpbrk(targets, "*+?()[]{}|\\^$") != NULL;
}

// ---- from Python's notation to that of regcomp --------------------------------------------------------

typedef struct {
  char text[PATTERN_BYTES];
  size_t used;
  bool fits;
} notation;

static void put(notation *n, const char *text, size_t length) {
  if (n->used + length >= sizeof n->text) {
    n->fits = false;
    return;
  }
  memcpy(n->text + n->used, text, length);
  n->used += length;
}

// \d and \w are sets; inside a set, only their contents. Other escaped characters stand for themselves.
static void put_escaped(notation *n, char c, bool is_in_set) {
  static const char digits[] = "[0-9]", word[] = "[A-Za-z0-9_]";
  const char *set = c == 'd' ? digits : c == 'w' ? word : NULL;
  if (set && is_in_set) put(n, set + 1, strlen(set) - 2);
  else if (set) put(n, set, strlen(set));
  else if (is_in_set) put(n, &c, 1);
  else put(n, (char[]){'\\', c}, 2);
}

static bool is_repetition(char c) { return c == '*' || c == '+' || c == '?' || c == '}'; }

// False for what has no counterpart: assertions, named groups, other classes.
static bool translate(const char *pattern, notation *n) {
  bool is_in_set = false;
  put(n, "^(", 2);
  for (const char *p = pattern; *p; p++) {
    if (*p == '\\') {
      p++;
      if (!*p || strchr("DWSsbBAZ123456789", *p)) return false;
      put_escaped(n, *p, is_in_set);
      continue;
    }
    if (is_in_set ? *p == ']' : *p == '[') is_in_set = !is_in_set;
    bool is_lazy = !is_in_set && *p == '?' && p > pattern && is_repetition(p[-1]);
    if (is_lazy) continue; // what is matched is the same
    put(n, p, 1);
    if (is_in_set || p[0] != '(' || p[1] != '?') continue;
    if (p[2] != ':') return false;
    p += 2;
  }
  put(n, ")$", 3);
  return n->fits && !is_in_set;
}

// ---- matching ---------------------------------------------------------------------------------------

// Every layer of a model is compared with the same expression, so the last one is kept.
static _Thread_local char last[PATTERN_BYTES];
static _Thread_local regex_t regex;
static _Thread_local bool is_valid;

void plim_lora_pattern_forget(void) {
  if (is_valid) regfree(&regex);
  is_valid = false;
  *last = 0;
}

static regex_t *compiled(const char *pattern) {
  if (*last && strcmp(last, pattern) == 0) return is_valid ? &regex : NULL;
  notation n = {.fits = true};
  plim_lora_pattern_forget();
  is_valid = strlen(pattern) < sizeof last && translate(pattern, &n) &&
             regcomp(&regex, n.text, REG_EXTENDED | REG_NOSUB) == 0;
  snprintf(last, sizeof last, "%s", pattern);
  return is_valid ? &regex : NULL;
}

bool plim_lora_pattern_is_valid(const char *pattern) { return compiled(pattern) != NULL; }

bool plim_lora_pattern_fits(const char *pattern, const char *path) {
  const regex_t *expression = compiled(pattern);
  return expression && regexec(expression, path, 0, NULL, 0) == 0;
}

bool plim_lora_pattern_occurs(const char *pattern, const char *path) {
  char anywhere[PATTERN_BYTES];
  snprintf(anywhere, sizeof anywhere, ".*(%s).*", pattern);
  return plim_lora_pattern_fits(anywhere, path);
}
