#include "diff_lines.h"

#include <stdlib.h>
#include <string.h>

// After this many differing lines, the search restarts from the furthest point that it reached. Time stays linear in
// the length of the texts and memory is 4 MB; the diff is correct but may not be the shortest.
#define MOST_EDITS 1000

static uint64_t hash_of(const char *text, size_t size) {
  uint64_t hash = 0xcbf29ce484222325ull; // FNV-1a, 64 bits
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
  return hash;
}

static size_t line_end(const char *text, size_t size, size_t begin) {
  const char *found = memchr(text + begin, '\n', size - begin);
  return found ? (size_t)(found - text) + 1 : size;
}

static size_t count_lines(const char *text, size_t size) {
  size_t lines = 0;
  for (size_t at = 0; at < size; lines++) at = line_end(text, size, at);
  return lines;
}

bool plim_diff_cut(const char *text, size_t size, plim_diff_text *out) {
  *out = (plim_diff_text){.at = calloc(count_lines(text, size) + 1, sizeof *out->at)};
  if (!out->at) return false;
  for (size_t at = 0, end; at < size; at = end) {
    end = line_end(text, size, at);
    out->at[out->len++] =
        (plim_diff_line){text + at, end - at, .hash = hash_of(text + at, end - at)};
  }
  return true;
}

static bool same(const plim_diff_line *a, const plim_diff_line *b) {
  return a->hash == b->hash && a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

// A part of both texts; x counts lines of the old one and y of the new one, both from the beginning of the part.
typedef struct {
  plim_diff_line *old, *new;
  int64_t old_len, new_len;
} box;

static int64_t slide(const box *b, int64_t x, int64_t y) {
  while (x < b->old_len && y < b->new_len && same(&b->old[x], &b->new[y])) x++, y++;
  return x;
}

// row[k + d] is the furthest x on diagonal k = x - y that d edits reach; -1: outside of the box. `rows` contains the
// rows of all d one after another, so that the path can be traced back.
static int32_t *row_of(int32_t *rows, int64_t d) { return rows + d * d; }

static int64_t reach(const int32_t *last, int64_t d, int64_t k) { // last is the row of d - 1
  return k < -(d - 1) || k > d - 1 ? -1 : last[k + d - 1];
}

// x on diagonal k after a line of the old text is skipped (from k - 1), or one of the new text (from k + 1). -1 if
// there is no such line or that diagonal was not reached.
static int64_t after_old(const box *b, const int32_t *last, int64_t d, int64_t k) {
  int64_t x = reach(last, d, k - 1);
  return x >= 0 && x < b->old_len ? x + 1 : -1;
}

static int64_t after_new(const box *b, const int32_t *last, int64_t d, int64_t k) {
  int64_t x = reach(last, d, k + 1);
  return x >= 0 && x - (k + 1) < b->new_len ? x : -1;
}

static bool takes_new(const box *b, const int32_t *last, int64_t d, int64_t k) {
  int64_t x = after_new(b, last, d, k);
  return x >= 0 && x >= after_old(b, last, d, k);
}

// x on diagonal k after one more edit, before equal lines are skipped; -1 if it cannot be reached.
static int64_t step_to(const box *b, const int32_t *last, int64_t d, int64_t k) {
  return takes_new(b, last, d, k) ? after_new(b, last, d, k) : after_old(b, last, d, k);
}

static void fill_row(const box *b, int32_t *rows, int64_t d) {
  int32_t *row = row_of(rows, d);
  for (int64_t k = -d; k <= d; k++) {
    row[k + d] = -1;
    if ((k + d) % 2) continue;
    int64_t x = d ? step_to(b, row_of(rows, d - 1), d, k) : 0;
    if (x >= 0) row[k + d] = (int32_t)slide(b, x, x - k);
  }
}

// The diagonal of a row on which most lines of both texts are covered.
static int64_t best_of(const int32_t *row, int64_t d) {
  int64_t best = -d, most = -1;
  for (int64_t k = -d; k <= d; k += 2) {
    int64_t x = row[k + d];
    if (x >= 0 && 2 * x - k > most) most = 2 * x - k, best = k;
  }
  return best;
}

static void mark(const box *b, int32_t *rows, int64_t d, int64_t k) {
  for (; d > 0; d--) {
    const int32_t *last = row_of(rows, d - 1);
    bool is_new = takes_new(b, last, d, k);
    k += is_new ? 1 : -1;
    int64_t x = reach(last, d, k);
    if (is_new) b->new[x - k].differs = true;
    else b->old[x].differs = true;
  }
}

// Searches, marks the differences up to the point that was reached, and removes that part from the box.
static void advance(box *b, int32_t *rows) {
  int64_t d = 0, k = 0, x = 0;
  for (;; d++) {
    fill_row(b, rows, d);
    k = best_of(row_of(rows, d), d);
    x = row_of(rows, d)[k + d];
    if ((x == b->old_len && x - k == b->new_len) || d == MOST_EDITS) break;
  }
  mark(b, rows, d, k);
  *b = (box){b->old + x, b->new + (x - k), b->old_len - x, b->new_len - (x - k)};
}

static void skip_equal_ends(box *b) {
  int64_t x = slide(b, 0, 0);
  *b = (box){b->old + x, b->new + x, b->old_len - x, b->new_len - x};
  while (b->old_len && b->new_len && same(&b->old[b->old_len - 1], &b->new[b->new_len - 1]))
    b->old_len--, b->new_len--;
}

static bool fits_the_rows(const box *b) { return b->old_len < INT32_MAX && b->new_len < INT32_MAX; }

bool plim_diff_compare(plim_diff_text *before, plim_diff_text *after) {
  box b = {before->at, after->at, (int64_t)before->len, (int64_t)after->len};
  skip_equal_ends(&b);
  if (!b.old_len && !b.new_len) return true;
  if (!fits_the_rows(&b)) return false;
  int64_t edits = b.old_len + b.new_len < MOST_EDITS ? b.old_len + b.new_len : MOST_EDITS;
  int32_t *rows = malloc((size_t)((edits + 1) * (edits + 1)) * sizeof *rows);
  if (!rows) return false;
  while (b.old_len || b.new_len) advance(&b, rows);
  free(rows);
  return true;
}
