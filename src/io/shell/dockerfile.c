#include "dockerfile.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

// ---- lines ------------------------------------------------------------------------------------------

static size_t line_end(const plim_docker *d, size_t at) {
  const char *end = memchr(d->text + at, '\n', d->size - at);
  return end ? (size_t)(end - d->text) : d->size;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static plim_span trim(const plim_docker *d, plim_span line) {
  while (line.begin < line.end && is_blank(d->text[line.begin])) line.begin++;
  while (line.end > line.begin && is_blank(d->text[line.end - 1])) line.end--;
  return line;
}

// Reads the next line and moves `*at` after it.
static plim_span read_line(const plim_docker *d, size_t *at) {
  plim_span line = {*at, line_end(d, *at)};
  *at = line.end < d->size ? line.end + 1 : line.end;
  return line;
}

// The escape character: ` if # escape=` is among the directives at the top, else \.
static char read_escape(const plim_docker *d) {
  size_t at = 0;
  while (at < d->size) {
    plim_span line = trim(d, read_line(d, &at));
    size_t size = line.end - line.begin;
    if (!size || d->text[line.begin] != '#' || !memchr(d->text + line.begin, '=', size)) break;
    size_t word = line.begin + 1, sign = line.end - 1;
    while (word < line.end && is_blank(d->text[word])) word++;
    while (sign > word && (is_blank(d->text[sign]) || d->text[sign] == '`')) sign--;
    if (line.end - word >= 8 && strncasecmp(d->text + word, "escape", 6) == 0 &&
        d->text[line.end - 1] == '`' && d->text[sign] == '=')
      return '`';
  }
  return '\\';
}

plim_docker plim_docker_begin(const char *text, size_t size) {
  plim_docker d = {.text = text, .size = size};
  d.escape = read_escape(&d);
  return d;
}

void plim_docker_end(plim_docker *d) {
  vec_free(&d->line);
  vec_free(&d->from);
}

static void note_comment(plim_docker *d, plim_span comment) {
  if (d->comments && !vec_push(d->comments, comment)) d->is_out = true;
}

static void append(plim_docker *d, plim_span part) {
  size_t n = part.end - part.begin;
  if (!vec_reserve(&d->line, n + 1) || !vec_reserve(&d->from, n + 1)) {
    d->is_out = true;
    return;
  }
  for (size_t i = 0; i < n; i++) {
    d->line.at[d->line.len++] = d->text[part.begin + i];
    d->from.at[d->from.len++] = (uint32_t)(part.begin + i);
  }
}

static bool is_comment(const plim_docker *d, plim_span trimmed) {
  return trimmed.begin < trimmed.end && d->text[trimmed.begin] == '#';
}

// Joins the lines of one instruction; the last one is the first that is not continued.
static void read_instruction(plim_docker *d, plim_span line) {
  plim_span trimmed = trim(d, line);
  d->span.begin = trimmed.begin;
  d->line.len = d->from.len = 0;
  for (;;) {
    bool is_left_out = is_comment(d, trimmed) || trimmed.begin == trimmed.end;
    if (is_comment(d, trimmed)) note_comment(d, trimmed);
    bool is_continued = !is_left_out && d->text[trimmed.end - 1] == d->escape;
    if (!is_left_out) {
      append(d, (plim_span){line.begin, trimmed.end - is_continued});
      d->span.end = trimmed.end;
      d->after = d->at;
    }
    if ((!is_continued && !is_left_out) || d->at >= d->size || d->is_out) break;
    line = read_line(d, &d->at);
    trimmed = trim(d, line);
  }
  if (!d->is_out && !vec_push(&d->from, (uint32_t)d->span.end)) d->is_out = true;
}

static void split_keyword(plim_docker *d) {
  size_t at = 0, end = d->line.len;
  while (at < end && is_blank(d->line.at[at])) at++;
  d->keyword.begin = at;
  while (at < end && !is_blank(d->line.at[at])) at++;
  d->keyword.end = at;
  while (at < end && is_blank(d->line.at[at])) at++;
  while (end > at && is_blank(d->line.at[end - 1])) end--;
  d->rest = (plim_span){at, end};
}

bool plim_docker_is(const plim_docker *d, const char *keyword) {
  size_t n = strlen(keyword);
  return d->keyword.end - d->keyword.begin == n &&
         strncasecmp(d->line.at + d->keyword.begin, keyword, n) == 0;
}

// ---- here-documents ---------------------------------------------------------------------------------

// The delimiter of the <<EOF, <<-EOF or <<"EOF" at `at`; empty if there is none.
static plim_span delimiter(const plim_docker *d, size_t at) {
  const char *text = d->line.at;
  size_t end = d->rest.end;
  if (end - at < 3 || memcmp(text + at, "<<", 2) != 0) return (plim_span){0};
  at += 2;
  at += text[at] == '-';
  at += at < end && strchr("'\"", text[at]);
  size_t begin = at;
  while (at < end && (isalnum((unsigned char)text[at]) || strchr("_-.", text[at]))) at++;
  return (plim_span){begin, at};
}

static void skip_here_document(plim_docker *d, plim_span word) {
  size_t n = word.end - word.begin;
  while (d->at < d->size) {
    plim_span line = read_line(d, &d->at);
    while (line.begin < line.end && d->text[line.begin] == '\t') line.begin++;
    if (line.end > line.begin && d->text[line.end - 1] == '\r') line.end--;
    if (line.end - line.begin == n && memcmp(d->text + line.begin, d->line.at + word.begin, n) == 0)
      break;
  }
  d->after = d->at;
}

static void skip_here_documents(plim_docker *d) {
  bool may_have = plim_docker_is(d, "RUN") || plim_docker_is(d, "COPY") || plim_docker_is(d, "ADD");
  for (size_t i = d->rest.begin; may_have && i < d->rest.end; i++) {
    if (i > d->rest.begin && !is_blank(d->line.at[i - 1])) continue;
    plim_span word = delimiter(d, i);
    if (word.end > word.begin) skip_here_document(d, word);
  }
}

bool plim_docker_next(plim_docker *d) {
  while (d->at < d->size && !d->is_out) {
    plim_span line = read_line(d, &d->at), trimmed = trim(d, line);
    if (is_comment(d, trimmed)) note_comment(d, trimmed);
    else if (trimmed.begin < trimmed.end) {
      read_instruction(d, line);
      if (d->is_out) return false;
      split_keyword(d);
      skip_here_documents(d);
      d->is_open = d->after == d->size && d->text[d->size - 1] != '\n';
      return true;
    }
  }
  return false;
}

plim_span plim_docker_place(const plim_docker *d, plim_span in_line) {
  size_t begin = d->from.at[in_line.begin];
  if (in_line.end > in_line.begin) return (plim_span){begin, d->from.at[in_line.end - 1] + 1u};
  if (in_line.begin)
    begin = d->from.at[in_line.begin - 1] + 1u; // an empty span is placed after the word before it
  return (plim_span){begin, begin};
}

// ---- ENV and ARG ------------------------------------------------------------------------------------

static size_t word_end(const plim_docker *d, size_t at) {
  char quote = 0;
  for (; at < d->rest.end; at++) {
    char c = d->line.at[at];
    if (c == d->escape && quote != '\'') at++;
    else if (quote) quote = c == quote ? 0 : quote;
    else if (c == '\'' || c == '"') quote = c;
    else if (is_blank(c)) break;
  }
  return at < d->rest.end ? at : d->rest.end;
}

static size_t name_end(const plim_docker *d, size_t at, size_t end) {
  while (at < end && (isalnum((unsigned char)d->line.at[at]) || d->line.at[at] == '_')) at++;
  return at;
}

bool plim_docker_pair_next(const plim_docker *d, bool is_env, size_t *at, plim_docker_pair *out) {
  size_t begin = *at;
  while (begin < d->rest.end && is_blank(d->line.at[begin])) begin++;
  if (begin >= d->rest.end) return false;
  size_t end = word_end(d, begin), name = name_end(d, begin, end);
  *out = (plim_docker_pair){.name = {begin, name}};
  *at = end;
  if (name < end && d->line.at[name] == '=') {
    out->value = (plim_span){name + 1, end};
    out->has_value = true;
  } else if (is_env && begin == d->rest.begin && name == end && end < d->rest.end) {
    for (name = end; is_blank(d->line.at[name]);) name++;
    out->value = (plim_span){name, d->rest.end};
    out->has_value = out->is_rest = true;
    *at = d->rest.end;
  }
  return true;
}

// ---- JSON arrays ------------------------------------------------------------------------------------

static size_t string_end(const plim_docker *d, size_t at) {
  for (at++; at < d->rest.end && d->line.at[at] != '"'; at++) at += d->line.at[at] == '\\';
  return at < d->rest.end ? at + 1 : 0;
}

static size_t skip_blanks(const plim_docker *d, size_t at) {
  while (at < d->rest.end && is_blank(d->line.at[at])) at++;
  return at;
}

bool plim_docker_array(plim_docker *d, plim_arguments *out) {
  size_t at = d->rest.begin, last = d->rest.end - 1;
  out->len = 0;
  if (d->rest.end - at < 2 || d->line.at[at] != '[' || d->line.at[last] != ']') return false;
  for (at = skip_blanks(d, at + 1); at < last;) {
    size_t end = d->line.at[at] == '"' ? string_end(d, at) : 0;
    if (!end) return false;
    plim_span word = {at, end};
    d->is_out |= !vec_push(out, plim_argument_at(d->line.at, word, PLIM_WORD_ELEMENT));
    if (d->is_out) return false;
    at = skip_blanks(d, end);
    if (at == last) return true;
    if (d->line.at[at] != ',') return false;
    at = skip_blanks(d, at + 1);
    if (at == last) return false;
  }
  return true;
}
