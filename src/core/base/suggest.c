#include "suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 63 };

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

static size_t min2(size_t a, size_t b) { return a < b ? a : b; }

// One cell of the Damerau-Levenshtein matrix, from the rows above it.
static size_t cell(const char *a, const char *b, size_t i, size_t j, const size_t *two_up,
                   const size_t *up, const size_t *row) {
  size_t wrong = lower(a[i - 1]) != lower(b[j - 1]);
  size_t best = min2(min2(up[j], row[j - 1]) + 1, up[j - 1] + wrong);
  bool swapped =
      i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]);
  return swapped ? min2(best, two_up[j - 2] + 1) : best;
}

size_t plim_edit_distance(const char *a, const char *b) {
  size_t a_len = strlen(a), b_len = strlen(b);
  if (a_len > LONGEST || b_len > LONGEST) return SIZE_MAX;
  size_t rows[3][LONGEST + 1] = {0};
  for (size_t j = 0; j <= b_len; j++) rows[0][j] = j;
  for (size_t i = 1; i <= a_len; i++) {
    size_t *row = rows[i % 3];
    row[0] = i;
    for (size_t j = 1; j <= b_len; j++)
      row[j] = cell(a, b, i, j, rows[(i + 1) % 3], rows[(i + 2) % 3], row);
  }
  return rows[a_len % 3][b_len];
}

static bool starts_with(const char *name, const char *word) {
  while (*word)
    if (lower(*name++) != lower(*word++)) return false;
  return true;
}

const char *plim_suggest(const char *word, const char *const *names, size_t count) {
  size_t len = strlen(word), allowed = len / 3 > 0 ? len / 3 : len > 1;
  const char *closest = NULL, *begun = NULL;
  size_t best = allowed + 1;
  for (size_t i = 0; i < count; i++) {
    if (!names[i]) continue;
    size_t distance = plim_edit_distance(word, names[i]);
    if (distance < best) best = distance, closest = names[i];
    if (!begun && len > 1 && starts_with(names[i], word)) begun = names[i];
  }
  return closest ? closest : begun;
}

void plim_suggest_list(const char *const *names, size_t count, size_t shown, char *out,
                       size_t size) {
  size_t used = 0, listed = count < shown ? count : shown;
  out[0] = '\0';
  for (size_t i = 0; i < listed && used < size; i++) {
    const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
    used += (size_t)snprintf(out + used, size - used, "%s%s", before, names[i]);
  }
  if (count > listed && used < size)
    snprintf(out + used, size - used, " and %zu more", count - listed);
}
