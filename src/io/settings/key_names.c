#include "key_names.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

// Skips the number of a call, the "#2" of LoraConfig#2.r.
static const char *skip_number(const char *key) {
  const char *end = key + 1;
  while (*key == '#' && isdigit((unsigned char)*end)) end++;
  return *key == '#' && end > key + 1 && *end == '.' ? end : key;
}

void plim_key_name(const char *key, char name[PLIM_KEY_BYTES]) {
  size_t used = 0;
  bool is_start = true;
  for (; *(key = skip_number(key)) && used + 1 < PLIM_KEY_BYTES; key++) {
    if (is_start && *key == '-') continue;
    is_start = *key == '.';
    name[used++] = *key == '-' ? '_' : (char)tolower((unsigned char)*key);
  }
  name[used] = 0;
}

bool plim_key_fits(const char *name, const char *pattern, bool is_nested) {
  if (strchr(pattern, '*')) return fnmatch(pattern, name, FNM_NOESCAPE) == 0;
  size_t n = strlen(name), m = strlen(pattern);
  if (n < m || strcmp(name + n - m, pattern) != 0) return false;
  return n == m || (is_nested && (name[n - m - 1] == '.' || name[n - m - 1] == '$'));
}

static bool starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

static bool is_alone(const char *word, size_t size, size_t n) {
  return size == n || !islower((unsigned char)word[n]);
}

// Whether a word of a name indicates evaluation (val, dev, eval, validation, testing) or training, as `kind` asks.
static bool is_word_of(plim_name_kind kind, const char *word, size_t size) {
  static const struct {
    plim_name_kind kind;
    const char *start;
    bool is_whole;
  } words[] = {{PLIM_OF_EVALUATION, "val", true},      {PLIM_OF_EVALUATION, "dev", true},
               {PLIM_OF_EVALUATION, "valid", false},   {PLIM_OF_EVALUATION, "eval", false},
               {PLIM_OF_EVALUATION, "test", false},    {PLIM_OF_EVALUATION, "infer", false},
               {PLIM_OF_EVALUATION, "predict", false}, {PLIM_OF_TRAINING, "train", false}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i].start);
    if (words[i].kind != kind || size < n || strncasecmp(word, words[i].start, n) != 0) continue;
    if (!words[i].is_whole || is_alone(word, size, n)) return true;
  }
  return false;
}

bool plim_name_is_of(plim_name_kind kind, const char *name, size_t size) {
  for (size_t i = 0; i < size;) {
    size_t n = 0;
    while (i + n < size && isalnum((unsigned char)name[i + n])) n++;
    if (n && is_word_of(kind, name + i, n)) return true;
    i += n + 1;
  }
  return false;
}

static bool is_about_evaluation(const char *part, size_t size) {
  static const char *const words[] = {"eval", "valid", "test", "infer", "predict", "generat"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (starts_with(part, words[i])) return true;
  return (size == 3 || (size > 3 && part[3] == '_')) &&
         (starts_with(part, "val") || starts_with(part, "dev"));
}

bool plim_key_is_of_evaluation(const char *name) {
  for (const char *part = name; *part;) {
    size_t size = strcspn(part, ".");
    if (part[size] && is_about_evaluation(part, size)) return true; // not the last part, the key
    part += size + (part[size] == '.');
  }
  return false;
}

bool plim_key_is_item(const char *name, const char *pattern, bool is_nested) {
  const char *dot = strrchr(name, '.');
  if (!dot || !dot[1] || dot[1 + strspn(dot + 1, "0123456789")]) return false;
  char list[PLIM_KEY_BYTES];
  memcpy(list, name, (size_t)(dot - name));
  list[dot - name] = 0;
  return plim_key_fits(list, pattern, is_nested);
}

size_t plim_key_last_part(const char *key) {
  size_t part = 0;
  for (size_t i = 0; key[i]; i++) {
    if (key[i] == '\\' && key[i + 1]) i++;
    else if (key[i] == '.') part = i + 1;
  }
  return part;
}

bool plim_is_configuration(const char *name, size_t size) {
  static const char *const names[] = {"LoraConfig", "BitsAndBytesConfig"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return true;
  return false;
}

bool plim_key_is_of_configuration(const char *key) {
  const char *dot = strrchr(key, '.'), *begin = dot;
  while (begin && begin > key && begin[-1] != '.') begin--;
  return dot && plim_is_configuration(begin, strcspn(begin, "#."));
}

bool plim_key_is_called(const char *key, const char *name) {
  char plain[PLIM_KEY_BYTES];
  plim_key_name(key + plim_key_last_part(key), plain);
  plain[strcspn(plain, "#")] = 0;
  return strcmp(plain, name) == 0;
}
