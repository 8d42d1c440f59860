// Finds cards by the names that users and drivers use.
#include <stdio.h>
#include <string.h>

#include "gpu.h"
#include "suggest.h"

enum { KEY_BYTES = 64, MAX_WORDS = 12, WORD_BYTES = 32, LISTED = 6 };

// ---- parsing a name ---------------------------------------------------------------------------------

// "NVIDIA A100-SXM4-80GB" has the words "a100" and "sxm", and the size 80 GB.
typedef struct {
  char words[MAX_WORDS][WORD_BYTES];
  size_t count;
  uint32_t size_gb; // 0: not given
  bool is_odd;      // too long to be the name of a card
} card_name;

static char small(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_character(char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); }

static bool is_one_of(const char *word, const char *const *list) {
  for (; *list; list++)
    if (strcmp(word, *list) == 0) return true;
  return false;
}

static const char *const size_units[] = {"g", "gb", "gib", NULL};

// Words that do not distinguish cards.
static const char *const left_out[] = {"nvidia", "geforce", "tesla", "generation", "gpu", NULL};

// The number at the start of a word; *rest is what follows.
static uint32_t leading_number(const char *word, const char **rest) {
  uint32_t n = 0;
  for (; is_digit(*word) && n < 100000; word++) n = 10 * n + (uint32_t)(*word - '0');
  *rest = word;
  return n;
}

// Takes "80gb", or "gb" after the word "80", as the size.
static bool takes_size(card_name *n, const char *word) {
  const char *unit;
  uint32_t number = leading_number(word, &unit);
  if (!is_one_of(unit, size_units)) return false;
  if (unit == word) {
    if (!n->count) return false;
    number = leading_number(n->words[n->count - 1], &unit);
    if (!number || *unit) return false;
    n->count--;
  }
  n->is_odd = n->is_odd || n->size_gb;
  n->size_gb = number;
  return true;
}

// The socket's generation is implied by the chip: "sxm4" becomes "sxm".
static void cut_socket(char *word) {
  if (strncmp(word, "sxm", 3) == 0 && is_digit(word[3]) && !word[4]) word[3] = '\0';
}

static bool is_series(const char *word, size_t length) {
  return length == 3 && (strncmp(word, "rtx", 3) == 0 || strncmp(word, "gtx", 3) == 0);
}

// Splits words such as "rtx3090" in two.
static void add_word(card_name *n, char word[WORD_BYTES]) {
  if (is_one_of(word, left_out) || takes_size(n, word)) return;
  if (is_series(word, 3) && word[3]) {
    char series[WORD_BYTES] = {word[0], word[1], word[2]};
    add_word(n, series);
    memmove(word, word + 3, strlen(word + 3) + 1);
  }
  cut_socket(word);
  if (n->count == MAX_WORDS) n->is_odd = true;
  else memcpy(n->words[n->count++], word, WORD_BYTES);
}

static card_name read_name(const char *text, size_t length) {
  card_name n = {.count = 0};
  for (size_t i = 0; i < length && !n.is_odd;) {
    char word[WORD_BYTES] = "";
    size_t used = 0;
    for (; i < length && is_word_character(small(text[i])); i++)
      if (used + 1 < WORD_BYTES) word[used++] = small(text[i]);
      else n.is_odd = true;
    if (used) add_word(&n, word);
    else i++;
  }
  return n;
}

// ---- comparing --------------------------------------------------------------------------------------

static bool join(char key[KEY_BYTES], const card_name *n, size_t first) {
  size_t used = 0;
  key[0] = '\0';
  for (size_t i = first; i < n->count; i++) {
    size_t length = strlen(n->words[i]);
    if (used + length >= KEY_BYTES) return false;
    memcpy(key + used, n->words[i], length + 1);
    used += length;
  }
  return used > 0;
}

// Whether both have the same letters and digits, ignoring spaces; "RTX" and "GTX" may be missing.
static bool same_words(const card_name *own, const card_name *asked) {
  char a[KEY_BYTES], b[KEY_BYTES];
  if (!join(b, asked, 0)) return false;
  if (join(a, own, 0) && strcmp(a, b) == 0) return true;
  return own->count > 1 && is_series(own->words[0], strlen(own->words[0])) && join(a, own, 1) &&
         strcmp(a, b) == 0;
}

static bool has_word(const card_name *n, const char *word) {
  for (size_t i = 0; i < n->count; i++)
    if (strcmp(n->words[i], word) == 0) return true;
  return false;
}

static bool has_words_of(const card_name *own, const card_name *asked) {
  for (size_t i = 0; i < asked->count; i++)
    if (!has_word(own, asked->words[i])) return false;
  return asked->count > 0;
}

// How well a name matches a card: some of its words; all but the size; exactly.
typedef enum { NOT_MEANT, SOME_WORDS, BUT_FOR_SIZE, THE_NAME } likeness;

static likeness compare(const plim_gpu *gpu, const card_name *own, const card_name *asked) {
  bool has_that_size = !asked->size_gb || asked->size_gb == plim_gpu_size_gb(gpu);
  if (same_words(own, asked)) {
    if (own->size_gb == asked->size_gb) return THE_NAME;
    if (asked->size_gb && !own->size_gb && has_that_size) return BUT_FOR_SIZE;
  }
  return has_that_size && has_words_of(own, asked) ? SOME_WORDS : NOT_MEANT;
}

static likeness likeness_of(const plim_gpu *gpu, const card_name *asked) {
  card_name own = read_name(gpu->name, strlen(gpu->name));
  likeness best = compare(gpu, &own, asked);
  for (const char *at = gpu->also; *at;) {
    size_t length = strcspn(at, ";");
    own = read_name(at, length);
    likeness l = compare(gpu, &own, asked);
    if (l > best) best = l;
    at += length + (at[length] == ';');
  }
  return best;
}

// The best matches, if they are at least as good as `least`.
static size_t candidates(const char *name, likeness least, const plim_gpu *out[PLIM_MAX_GPUS]) {
  card_name asked = read_name(name, strlen(name));
  size_t count = 0;
  for (size_t i = 0; i < plim_gpu_count && !asked.is_odd; i++) {
    likeness l = likeness_of(&plim_gpus[i], &asked);
    if (l < least || l == NOT_MEANT) continue;
    if (l > least) count = 0, least = l;
    out[count++] = &plim_gpus[i];
  }
  return count;
}

size_t plim_gpu_candidates(const char *name, const plim_gpu *out[PLIM_MAX_GPUS]) {
  return candidates(name, SOME_WORDS, out);
}

const plim_gpu *plim_gpu_named(const char *name) {
  const plim_gpu *found[PLIM_MAX_GPUS];
  return plim_gpu_candidates(name, found) == 1 ? found[0] : NULL;
}

size_t plim_gpu_others(const char *name, const plim_gpu *meant,
                       const plim_gpu *out[PLIM_MAX_GPUS]) {
  card_name asked = read_name(name, strlen(name)),
            own = read_name(meant->name, strlen(meant->name));
  size_t count = 0;
  if (compare(meant, &own, &asked) > SOME_WORDS) return 0;
  for (size_t i = 0; i < plim_gpu_count; i++)
    if (&plim_gpus[i] != meant && likeness_of(&plim_gpus[i], &asked) != NOT_MEANT)
      out[count++] = &plim_gpus[i];
  return count;
}

static uint64_t distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

const plim_gpu *plim_gpu_present(const char *name, uint64_t memory_mib) {
  const plim_gpu *found[PLIM_MAX_GPUS], *best = NULL;
  size_t count = candidates(name, BUT_FOR_SIZE, found);
  for (size_t i = 0; i < count; i++)
    if (!best ||
        distance(found[i]->memory_mib, memory_mib) < distance(best->memory_mib, memory_mib))
      best = found[i];
  return best;
}

// ---- errors -----------------------------------------------------------------------------------------

static const plim_gpu *closest(const char *name) {
  char asked[KEY_BYTES], keys[PLIM_MAX_GPUS][KEY_BYTES];
  const char *names[PLIM_MAX_GPUS];
  card_name n = read_name(name, strlen(name));
  if (n.is_odd || !join(asked, &n, 0)) return NULL;
  for (size_t i = 0; i < plim_gpu_count; i++) {
    card_name own = read_name(plim_gpus[i].name, strlen(plim_gpus[i].name));
    names[i] = join(keys[i], &own, 0) ? keys[i] : NULL;
  }
  const char *found = plim_suggest(asked, names, plim_gpu_count);
  for (size_t i = 0; found && i < plim_gpu_count; i++)
    if (names[i] == found) return &plim_gpus[i];
  return NULL;
}

static plim_err refuse_several(const char *name, const plim_gpu *const *found, size_t count,
                               plim_error *error) {
  const char *names[LISTED];
  for (size_t i = 0; i < count && i < LISTED; i++) names[i] = found[i]->name;
  char list[160];
  plim_suggest_list(names, count, LISTED, list, sizeof list);
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "\"%.64s\" could be %s", name, list);
  plim_error_hint(error, "plimsoll help gpus lists the GPUs");
  return err;
}

plim_err plim_gpu_find(const char *name, const plim_gpu **out, plim_error *error) {
  const plim_gpu *found[PLIM_MAX_GPUS];
  size_t count = plim_gpu_candidates(name, found);
  *out = count == 1 ? found[0] : NULL;
  if (*out) return PLIM_OK;
  if (count) return refuse_several(name, found, count, error);
  const plim_gpu *close = closest(name);
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "unknown GPU \"%.64s\"%s%s%s", name,
                close ? "; did you mean \"" : "", close ? close->name : "", close ? "\"?" : "");
  plim_error_hint(error, "plimsoll help gpus lists the names; or give a size such as 24GiB");
  return err;
}
