#include "quoting.h"

#include <ctype.h>
#include <string.h>

// The output. Failed writes are only noted and are checked at the end.
typedef struct {
  plim_bytes *out;
  bool is_out;
} sink;

static void put(sink *k, char c) {
  if (!vec_push(k->out, c)) k->is_out = true;
}

static void puts_of(sink *k, const char *text) {
  while (*text) put(k, *text++);
}

// The input.
typedef struct {
  const char *text;
  size_t at, end;
  sink to;
} source;

static char peek(const source *r, size_t ahead) {
  return r->at + ahead < r->end ? r->text[r->at + ahead] : 0;
}

static size_t newline(const source *r, size_t ahead) {
  if (peek(r, ahead) == '\n') return 1;
  return peek(r, ahead) == '\r' && peek(r, ahead + 1) == '\n' ? 2 : 0;
}

// ---- reading shell words ----------------------------------------------------------------------------

static bool is_expansion(const source *r) {
  char c = peek(r, 1);
  if (!c) return false;
  return isalnum((unsigned char)c) || strchr("_({[@*#?-$!", c);
}

// Reads a \ inside "...", where it is an escape only before these characters.
static void read_escape_in_double(source *r) {
  size_t end = newline(r, 1);
  if (end) r->at += 1 + end;
  else if (peek(r, 1) && strchr("$`\"\\", peek(r, 1))) {
    put(&r->to, peek(r, 1));
    r->at += 2;
  } else put(&r->to, r->text[r->at++]);
}

static bool read_double_to(source *r, size_t end) {
  while (r->at < end && r->text[r->at] != '"') {
    char c = r->text[r->at];
    if (c == '`' || (c == '$' && is_expansion(r))) return false;
    if (c == '\\') read_escape_in_double(r);
    else put(&r->to, c), r->at++;
  }
  return true;
}

static bool read_double(source *r) {
  r->at++;
  if (!read_double_to(r, r->end)) return false;
  return r->at++ < r->end;
}

static bool read_single(source *r) {
  for (r->at++; r->at < r->end && r->text[r->at] != '\''; r->at++) put(&r->to, r->text[r->at]);
  return r->at++ < r->end;
}

// Pairs of letter and meaning.
static const char ansi_escapes[] = "n\nt\tr\ra\ab\be\033f\fv\v\\\\''\"\"??";

// Reads $'...'; false if it contains characters by number, which are not supported.
static bool read_ansi(source *r) {
  for (r->at += 2; r->at < r->end && r->text[r->at] != '\''; r->at++) {
    char c = r->text[r->at];
    if (c == '\\') {
      const char *e = ansi_escapes;
      for (c = peek(r, 1); *e && *e != c;) e += 2;
      if (!c || !*e) return false;
      c = e[1];
      r->at++;
    }
    put(&r->to, c);
  }
  return r->at++ < r->end;
}

static void read_escape(source *r) {
  size_t end = newline(r, 1);
  if (!end && peek(r, 1)) put(&r->to, peek(r, 1));
  r->at += end ? 1 + end : 2;
}

// {a,b} and {1..4} expand to several words; {} and {a} are literal.
static bool is_brace_list(const source *r) {
  for (size_t i = 1; peek(r, i) && peek(r, i) != '}' && i < 256; i++)
    if (peek(r, i) == ',' || (peek(r, i) == '.' && peek(r, i + 1) == '.')) return true;
  return false;
}

static bool is_home(const source *r, size_t begin) { return r->at == begin && peek(r, 0) == '~'; }

static bool read_word(source *r) {
  size_t begin = r->at;
  while (r->at < r->end) {
    char c = r->text[r->at];
    if (c == '\'') {
      if (!read_single(r)) return false;
    } else if (c == '"') {
      if (!read_double(r)) return false;
    } else if (c == '$' && peek(r, 1) == '\'') {
      if (!read_ansi(r)) return false;
    } else if (c == '$' && peek(r, 1) == '"') r->at++;
    else if (c == '\\') read_escape(r);
    else if (strchr("`*?<>", c) || (c == '$' && is_expansion(r)) || is_home(r, begin) ||
             (c == '{' && is_brace_list(r)))
      return false;
    else put(&r->to, c), r->at++;
  }
  return true;
}

static bool read_within_double(source *r) { return read_double_to(r, r->end) && r->at >= r->end; }

static bool read_plain(source *r) {
  while (r->at < r->end) put(&r->to, r->text[r->at++]);
  return true;
}

static bool read_piece(source *r) {
  for (size_t i = r->at; i < r->end; i++)
    if (strchr("\\\"'$`*?[{", r->text[i])) return false;
  return read_plain(r);
}

// ---- reading JSON strings and ENV -------------------------------------------------------------------

static const char json_escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; // pairs of letter and meaning

static bool read_within_json(source *r) {
  for (; r->at < r->end; r->at++) {
    char c = r->text[r->at];
    if (c == '"') return false;
    if (c == '\\') {
      const char *e = json_escapes;
      for (c = peek(r, 1); *e && *e != c;) e += 2;
      if (!c || !*e) return false; // \u is not supported, because launch lines do not use it
      c = e[1];
      r->at++;
    }
    put(&r->to, c);
  }
  return true;
}

static bool read_element(source *r) {
  if (r->end - r->at < 2 || peek(r, 0) != '"' || r->text[r->end - 1] != '"') return false;
  r->at++;
  r->end--;
  return read_within_json(r);
}

static bool read_env(source *r) {
  for (size_t i = r->at; i < r->end; i++)
    if (r->text[i] == '$' && i + 1 < r->end && strchr("'\"", r->text[i + 1])) return false;
  while (r->at < r->end) {
    char c = r->text[r->at];
    if (c == '\'') {
      if (!read_single(r)) return false;
    } else if (c == '"') {
      if (!read_double(r)) return false;
    } else if (c == '\\') read_escape(r);
    else if (c == '$' && is_expansion(r)) return false;
    else put(&r->to, c), r->at++;
  }
  return true;
}

// ---- writing ----------------------------------------------------------------------------------------

static bool is_safe(const char *text, const char *also) {
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && (unsigned char)*c < 128 && !strchr(also, *c)) return false;
  return *text;
}

static bool is_plain_word(const char *text) { return is_safe(text, "_./:,@%+-="); }

static bool write_escaped(sink *k, const char *text, const char *escaped) {
  for (; *text; text++) {
    if (strchr(escaped, *text)) put(k, '\\');
    put(k, *text);
  }
  return true;
}

static bool write_within_double(sink *k, const char *text) {
  return write_escaped(k, text, "$`\"\\");
}

static bool write_double(sink *k, const char *text) {
  put(k, '"');
  write_within_double(k, text);
  put(k, '"');
  return true;
}

static bool write_within_single(sink *k, const char *text) {
  for (; *text; text++)
    if (*text == '\'') puts_of(k, "'\\''");
    else put(k, *text);
  return true;
}

static bool write_single(sink *k, const char *text) {
  put(k, '\'');
  write_within_single(k, text);
  put(k, '\'');
  return true;
}

// The quote that encloses the whole old value; 0 if there is none.
static char quote_of(const char *old, size_t size) {
  if (size < 2 || !strchr("'\"", old[0]) || old[size - 1] != old[0]) return 0;
  return memchr(old + 1, old[0], size - 2) ? 0 : old[0];
}

static bool write_word(sink *k, const char *old, size_t size, const char *text) {
  char quote = quote_of(old, size);
  bool has_single = strchr(text, '\'') != NULL;
  if (!quote && is_plain_word(text)) return puts_of(k, text), true;
  if (quote == '"' || has_single) return write_double(k, text);
  return write_single(k, text);
}

static bool write_in_single(sink *k, const char *old, size_t size, const char *text) {
  (void)old, (void)size;
  return !strchr(text, '\'') && write_within_single(k, text);
}

static bool write_in_double(sink *k, const char *old, size_t size, const char *text) {
  (void)old, (void)size;
  return write_within_double(k, text);
}

static bool write_default(sink *k, const char *old, size_t size, const char *text) {
  if (quote_of(old, size) || (*text && !is_plain_word(text))) return write_double(k, text);
  return puts_of(k, text), true;
}

// Refuses quotes and <>, which bash interprets in a default inside "..." and other shells do not.
static bool write_default_in_double(sink *k, const char *old, size_t size, const char *text) {
  (void)old, (void)size;
  return !strpbrk(text, "{}'<>") && write_within_double(k, text);
}

static bool write_piece(sink *k, const char *old, size_t size, const char *text) {
  (void)old, (void)size;
  return is_plain_word(text) && (puts_of(k, text), true);
}

static bool write_json(sink *k, const char *old, size_t size, const char *text) {
  (void)old, (void)size;
  for (; *text; text++) {
    const char *e = json_escapes;
    while (*e && e[1] != *text) e += 2;
    if ((unsigned char)*text < ' ' && !*e) return false;
    if (*e && *e != '/') put(k, '\\'), put(k, *e);
    else put(k, *text);
  }
  return true;
}

static bool write_element(sink *k, const char *old, size_t size, const char *text) {
  put(k, '"');
  if (!write_json(k, old, size, text)) return false;
  put(k, '"');
  return true;
}

// Refuses line breaks, because an instruction ends with its line.
static bool write_env(sink *k, const char *old, size_t size, const char *text) {
  return !strpbrk(text, "\r\n") && write_word(k, old, size, text);
}

static bool write_rest(sink *k, const char *old, size_t size, const char *text) {
  char quote = quote_of(old, size);
  if (strpbrk(text, "\r\n")) return false;
  if (quote == '"') return write_double(k, text);
  return is_safe(text, "_./:,@%+-=") && (puts_of(k, text), true);
}

static const struct {
  bool (*read)(source *r);
  bool (*write)(sink *k, const char *old, size_t size, const char *text);
} places[PLIM_WORD_CONTEXTS] = {
    [PLIM_WORD_WORD] = {read_word, write_word},
    [PLIM_WORD_SINGLE] = {read_plain, write_in_single},
    [PLIM_WORD_DOUBLE] = {read_within_double, write_in_double},
    [PLIM_WORD_DEFAULT] = {read_word, write_default},
    [PLIM_WORD_DEFAULT_DOUBLE] = {read_within_double, write_default_in_double},
    [PLIM_WORD_PIECE] = {read_piece, write_piece},
    [PLIM_WORD_ELEMENT] = {read_element, write_element},
    [PLIM_WORD_JSON] = {read_within_json, write_json},
    [PLIM_WORD_ENV] = {read_env, write_env},
    [PLIM_WORD_REST] = {read_env, write_rest},
};

static bool finish(sink *k, bool is_right, bool *is_out) {
  put(k, 0);
  *is_out = k->is_out;
  return is_right && !k->is_out;
}

bool plim_word_read(plim_word_context place, const char *text, plim_span span, plim_bytes *out,
                    bool *is_out) {
  out->len = 0;
  source r = {text, span.begin, span.end, {out, false}};
  bool is_literal = places[place].read(&r);
  return finish(&r.to, is_literal, is_out);
}

bool plim_word_write(plim_word_context place, const char *old, size_t old_size, const char *value,
                     plim_bytes *out, bool *is_out) {
  out->len = 0;
  sink k = {out, false};
  bool is_right = places[place].write(&k, old, old_size, value);
  return finish(&k, is_right, is_out);
}

void plim_shell_quote(FILE *out, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_-+=./:,@%";
  if (*text && text[strspn(text, plain)] == 0) {
    fputs(text, out);
    return;
  }
  fputc('\'', out);
  for (; *text; text++) // within single quotes, only they need escaping
    if (*text == '\'') fputs("'\\''", out);
    else fputc(*text, out);
  fputc('\'', out);
}

static char *words_after(const char *begin, const char *const *words, const char *end) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs(begin, out);
  for (size_t i = 0; words[i]; i++) {
    if (i) fputc(' ', out);
    plim_shell_quote(out, words[i]);
  }
  fputs(end, out);
  return plim_stream_end(out, &text) ? text : NULL;
}

char *plim_shell_line(const char *const *words) { return words_after("", words, ""); }

char *plim_script_of_words(const char *const *words) {
  return words_after(PLIM_SCRIPT_START, words, "\n");
}
