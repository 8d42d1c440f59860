// --lengths FILE: the numbers of tokens of the samples.
#include "job_lengths.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_file.h"
#include "units.h"
#include "value.h"
#include "vec.h"

enum { MOST_BYTES = 256 << 20, MOST_TOKENS = 1 << 24 };

typedef vec(int64_t) numbers;

// Between the numbers of a JSON list there are commas; otherwise each is on a line of its own.
static bool is_between(char c, bool is_list) {
  return isspace((unsigned char)c) || (is_list && (c == ',' || c == ']'));
}

static plim_err refuse(const char *path, const char *text, const char *at, plim_error *error) {
  int line = 1, size = (int)strcspn(at, " \t\r\n");
  for (const char *c = text; c < at; c++) line += *c == '\n';
  plim_err err =
      plim_fail(error, PLIM_ERR_PARSE, "line %d: \"%.*s\" is not a number of tokens from 1 to %d",
                line, size < 40 ? size : 40, at, MOST_TOKENS);
  plim_error_hint(error,
                  "--lengths takes a file with the number of tokens of each sample, one per line");
  return plim_error_file(error, err, path);
}

// A first line that does not start with a digit is the name of a column.
static const char *skip_heading(const char *text) {
  text += strspn(text, " \t\r\n");
  return isdigit((unsigned char)*text) || *text == '[' ? text : text + strcspn(text, "\n");
}

// As pandas writes whole numbers in a column with gaps: 12.0
static const char *skip_fraction(const char *end) {
  return end[0] == '.' && end[1] == '0' && !isdigit((unsigned char)end[2]) ? end + 2 : end;
}

static plim_err read_numbers(const char *path, const char *text, numbers *out, plim_error *error) {
  const char *at = skip_heading(text);
  bool is_list = *at == '[';
  at += is_list;
  for (;;) {
    while (*at && is_between(*at, is_list)) at++;
    if (!*at) return PLIM_OK;
    char *number;
    long long tokens = strtoll(at, &number, 10);
    const char *end = skip_fraction(number);
    if (end == at || (*end && !is_between(*end, is_list)) || tokens < 1 || tokens > MOST_TOKENS)
      return refuse(path, text, at, error);
    if (!vec_push(out, tokens)) return plim_no_memory(error);
    at = end;
  }
}

plim_err job_read_lengths(const char *path, plim_lengths *out, plim_error *error) {
  char *text = NULL;
  size_t size;
  numbers read = {0};
  plim_err err = plim_text_file_read(path, MOST_BYTES, &text, &size, error);
  if (!err && strlen(text) != size)
    err = plim_error_file(error, plim_fail(error, PLIM_ERR_PARSE, "this is not a text file"), path);
  if (!err) err = read_numbers(path, text, &read, error);
  if (!err && !read.len) {
    err = plim_fail(error, PLIM_ERR_PARSE, "the file has no numbers");
    plim_error_hint(
        error, "--lengths takes a file with the number of tokens of each sample, one per line");
    plim_error_file(error, err, path);
  }
  free(text);
  if (err) {
    vec_free(&read);
    return err;
  }
  *out = (plim_lengths){read.at, read.len};
  plim_lengths_sort(out);
  return PLIM_OK;
}

void job_note_lengths(const char *path, const plim_lengths *l, int64_t most, plim_notes *notes) {
  size_t cut = 0;
  while (cut < l->count && l->at[l->count - 1 - cut] > most) cut++;
  char longer[96] = "";
  if (cut)
    snprintf(longer, sizeof longer, "; %s are longer than %lld tokens and are cut",
             units_count(cut).text, (long long)most);
  plim_note_add(
      notes, "assumes.lengths", "sequence",
      "%.120s: %s samples of %lld to %lld tokens, %.0f on average%s; memory is predicted "
      "for the longest sample, time for batches in random order, each padded to its longest sample",
      path, units_count(l->count).text, (long long)l->at[0],
      (long long)plim_lengths_longest(l, most), plim_lengths_mean(l, most), longer);
}
