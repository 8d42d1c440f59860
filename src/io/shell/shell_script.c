#include "shell_script.h"

#include <string.h>

#include "shell_parser.h"
#include "sort.h"

typedef vec(plim_span) span_list;

char shell_peek(const shell_parser *p, size_t ahead) {
  return p->at + ahead < p->s->end ? p->s->text[p->at + ahead] : 0;
}

static bool is_word_end(const shell_parser *p, size_t at) {
  return at >= p->s->end || strchr(" \t\n\r|&;()<>", p->s->text[at]);
}

bool shell_is_at(const shell_parser *p, const char *word) {
  size_t n = strlen(word);
  return p->s->end - p->at >= n && memcmp(p->s->text + p->at, word, n) == 0;
}

bool shell_is_at_word(const shell_parser *p, const char *word) {
  return shell_is_at(p, word) && is_word_end(p, p->at + strlen(word));
}

// ---- scopes -----------------------------------------------------------------------------------------

bool shell_new_scope(shell_parser *p, size_t parent, plim_shell_scope is, size_t *out) {
  plim_shell_script *script = p->s->out;
  *out = 0;
  if (!script) return true;
  is.parent = parent;
  if (script->scopes.len) {
    is.in_function |= script->scopes.at[parent].in_function;
    is.in_loop |= script->scopes.at[parent].in_loop;
  }
  *out = script->scopes.len;
  return vec_push(&script->scopes, is) || plim_shell_nomem(p->s);
}

size_t shell_scope(const shell_parser *p) {
  return p->list_scope != PLIM_NOWHERE ? p->list_scope : p->blocks.at[p->blocks.len - 1].scope;
}

void shell_end_list(shell_parser *p) {
  p->list_scope = p->last = PLIM_NOWHERE;
  p->had_or = false;
  p->list_first = p->s->out ? p->s->out->commands.len : 0;
}

// ---- lines ------------------------------------------------------------------------------------------

static size_t line_end(const shell_parser *p, size_t at) {
  const char *end = memchr(p->s->text + at, '\n', p->s->end - at);
  return end ? (size_t)(end - p->s->text) : p->s->end;
}

static bool skip_comment(shell_parser *p) {
  size_t end = line_end(p, p->at), begin = p->at;
  p->at = end;
  if (end > begin && p->s->text[end - 1] == '\r') end--;
  return !p->s->out || vec_push(&p->s->out->comments, (plim_span){begin, end}) ||
         plim_shell_nomem(p->s);
}

static bool is_delimiter(const shell_parser *p, const shell_here_document *h, size_t begin,
                         size_t end) {
  size_t at = h->delimiter.begin;
  if (end > begin && p->s->text[end - 1] == '\r') end--;
  for (; at < h->delimiter.end; at++) {
    if (strchr("'\"\\", p->s->text[at])) continue;
    if (begin == end || p->s->text[begin++] != p->s->text[at]) return false;
  }
  return begin == end;
}

// Skips a here-document. Without its delimiter it ends with the text, because shells only warn. If the delimiter is
// quoted, nothing is expanded in it.
static bool skip_here_document(shell_parser *p, const shell_here_document *h) {
  size_t first = p->at, end = p->at;
  bool is_quoted = false, is_ended = false;
  for (size_t i = h->delimiter.begin; i < h->delimiter.end; i++)
    is_quoted |= strchr("'\"\\", p->s->text[i]) != NULL;
  while (p->at < p->s->end && !is_ended) {
    size_t begin = p->at, next = line_end(p, begin);
    p->at = next < p->s->end ? next + 1 : next;
    while (h->strips_tabs && begin < next && p->s->text[begin] == '\t') begin++;
    is_ended = is_delimiter(p, h, begin, next);
    if (!is_ended) end = p->at;
  }
  return is_quoted || plim_shell_note_document(p->s, first, end);
}

static bool end_line(shell_parser *p) {
  bool ok = true;
  if (!p->is_continued) shell_end_list(p);
  p->at += plim_shell_newline(p->s, p->at);
  for (size_t i = 0; i < p->waiting.len && ok; i++) ok = skip_here_document(p, &p->waiting.at[i]);
  p->waiting.len = 0;
  p->line = p->is_continued ? PLIM_NOWHERE : p->at;
  return ok;
}

// Skips blanks, line ends and comments between commands.
bool shell_skip_space(shell_parser *p) {
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    bool is_line = plim_shell_newline(p->s, p->at) > 0;
    if (!is_line && shell_peek(p, 0) != '#') return true;
    if (is_line ? !end_line(p) : !skip_comment(p)) return false;
  }
}

// Begins a command; true if it is the first on its line, so that another line can be inserted before it.
bool shell_begin_command(shell_parser *p) {
  bool is_first = p->line != PLIM_NOWHERE;
  if (is_first) shell_top(p)->line = p->line;
  p->line = PLIM_NOWHERE;
  p->is_continued = false;
  return is_first;
}

static size_t line_above(const shell_parser *p) {
  for (size_t i = p->blocks.len; i-- > 0;)
    if (p->blocks.at[i].line != PLIM_NOWHERE) return p->blocks.at[i].line;
  return PLIM_NOWHERE;
}

// ---- simple commands --------------------------------------------------------------------------------

static const char *const redirections[] = {"&>>", "<<<", "<<-", "&>", "<<", "<>",
                                           "<&",  ">>",  ">|",  ">&", "<",  ">"};

const char *shell_redirection(const shell_parser *p) {
  if ((shell_peek(p, 0) == '<' || shell_peek(p, 0) == '>') && shell_peek(p, 1) == '(') return NULL;
  for (size_t i = 0; i < sizeof redirections / sizeof *redirections; i++)
    if (shell_is_at(p, redirections[i])) return redirections[i];
  return NULL;
}

static bool skip_redirection(shell_parser *p, const char *sign, bool *has_document) {
  bool is_document = strcmp(sign, "<<") == 0 || strcmp(sign, "<<-") == 0;
  size_t begin = p->at;
  p->at += strlen(sign);
  plim_shell_skip_blanks(p->s, &p->at);
  size_t target = p->at;
  if (!plim_shell_skip_word(p->s, &p->at)) return false;
  if (p->at == target) return plim_shell_fail(p->s, begin, "this redirection has no target");
  *has_document |= is_document || strcmp(sign, "<<<") == 0;
  return !is_document ||
         vec_push(&p->waiting, (shell_here_document){{target, p->at}, sign[2] == '-'}) ||
         plim_shell_nomem(p->s);
}

bool shell_note_command(shell_parser *p, plim_shell_command c, const plim_span *words,
                        size_t count) {
  plim_shell_script *out = p->s->out;
  if (!out || !count) return true;
  c.first = out->words.len;
  c.count = count;
  c.substitutions = p->s->substitutions;
  c.scope = shell_scope(p);
  if (!vec_reserve(&out->words, count)) return plim_shell_nomem(p->s);
  memcpy(out->words.at + c.first, words, count * sizeof *words);
  out->words.len += count;
  p->last = out->commands.len;
  return vec_push(&out->commands, c) || plim_shell_nomem(p->s);
}

static bool read_list_words(shell_parser *p, size_t begin, span_list *words) {
  for (;;) {
    if (!shell_skip_space(p)) return false;
    if (p->at >= p->s->end) return plim_shell_fail(p->s, begin, "this ( is never closed");
    if (shell_peek(p, 0) == ')') return p->at++, true;
    size_t word = p->at;
    if (!plim_shell_skip_word(p->s, &p->at)) return false;
    if (p->at == word) return plim_shell_fail(p->s, word, "this is not allowed in a list");
    if (!vec_push(words, (plim_span){word, p->at})) return plim_shell_nomem(p->s);
  }
}

// Reads the list in NAME=( ... ), from its parenthesis on.
static bool read_list(shell_parser *p, plim_span name) {
  span_list words = {0};
  plim_shell_command c = {.begin = p->at, .list = name, .line = line_above(p)};
  c.is_conditional = p->is_conditional;
  p->at++;
  bool is_whole =
      read_list_words(p, c.begin, &words) && shell_note_command(p, c, words.at, words.len);
  vec_free(&words);
  return is_whole;
}

// The name in NAME= or NAME+=; empty if a value follows.
static plim_span assigned(const shell_parser *p, plim_span word) {
  size_t name = plim_shell_name(p->s, word.begin), end = word.begin + name;
  size_t sign = end < word.end && p->s->text[end] == '+';
  bool is_bare = name && word.end == end + sign + 1 && p->s->text[end + sign] == '=';
  return is_bare ? (plim_span){word.begin, end} : (plim_span){0};
}

static bool is_number(const shell_parser *p, plim_span word) {
  for (size_t i = word.begin; i < word.end; i++)
    if (p->s->text[i] < '0' || p->s->text[i] > '9') return false;
  return word.end > word.begin;
}

// Reads one word, including the list after NAME=. The number before a redirection, as in 2>, is not a word.
static bool read_word(shell_parser *p, span_list *words) {
  plim_span word = {p->at, 0};
  if (!plim_shell_skip_word(p->s, &p->at)) return false;
  word.end = p->at;
  if (word.end == word.begin) return plim_shell_fail(p->s, p->at, "this is unexpected here");
  if ((shell_peek(p, 0) == '<' || shell_peek(p, 0) == '>') && is_number(p, word)) return true;
  plim_span name = shell_peek(p, 0) == '(' ? assigned(p, word) : (plim_span){0};
  if (name.end && !read_list(p, name)) return false;
  word.end = p->at;
  return vec_push(words, word) || plim_shell_nomem(p->s);
}

bool shell_ends_command(const shell_parser *p) {
  char c = shell_peek(p, 0);
  bool is_process = (c == '<' || c == '>') && shell_peek(p, 1) == '(';
  return p->at >= p->s->end || plim_shell_newline(p->s, p->at) || c == '#' ||
         (!is_process && strchr("|&;()", c));
}

static bool read_words(shell_parser *p, span_list *words, bool *has_document) {
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    const char *sign = shell_redirection(p);
    if (sign) {
      if (!skip_redirection(p, sign, has_document)) return false;
    } else if (shell_ends_command(p)) return true;
    else if (!read_word(p, words)) return false;
  }
}

// Skips the () after the name of a function.
bool shell_skip_function_parens(shell_parser *p) {
  size_t begin = p->at++;
  p->is_continued = p->is_function = true;
  plim_shell_skip_blanks(p->s, &p->at);
  if (shell_peek(p, 0) != ')') return plim_shell_fail(p->s, begin, "this ( is unexpected here");
  return p->at++, true;
}

static bool is_in_branch(const shell_parser *p) {
  for (size_t i = 1; i < p->blocks.len; i++)
    if (p->blocks.at[i].kind == BLOCK_IF || p->blocks.at[i].kind == BLOCK_CASE) return true;
  return false;
}

bool shell_read_command(shell_parser *p) {
  span_list words = {0};
  p->is_function = false;
  p->last = PLIM_NOWHERE;
  p->is_conditional = p->is_continued || is_in_branch(p);
  bool is_first = shell_begin_command(p), is_whole;
  plim_shell_command c = {.begin = p->at, .line = line_above(p)};
  c.is_conditional = p->is_conditional;
  c.is_plain = is_first && p->blocks.len == 1;
  is_whole = read_words(p, &words, &c.has_here_document);
  if (is_whole && shell_peek(p, 0) == '(') is_whole = shell_skip_function_parens(p);
  else if (is_whole) is_whole = shell_note_command(p, c, words.at, words.len);
  vec_free(&words);
  return is_whole;
}

// ---- scripts ----------------------------------------------------------------------------------------

static const char *const unclosed[] = {"this if has no fi", "this loop has no done",
                                       "this { is never closed", "this ( is never closed",
                                       "this case has no esac"};

static bool read_all(shell_parser *p, size_t begin) {
  while (!p->is_done)
    if (!shell_read_next(p)) return false;
  if (p->blocks.len > 1)
    return plim_shell_fail(p->s, shell_top(p)->begin, unclosed[shell_top(p)->kind]);
  return !p->closer || p->is_closed || plim_shell_fail(p->s, begin - 1, "this ( is never closed");
}

bool plim_shell_commands(plim_shell_scan *s, size_t *at, char closer) {
  shell_parser p = {.s = s, .at = *at, .closer = closer, .line = *at};
  shell_block all = {.line = PLIM_NOWHERE};
  size_t around = s->scope;
  shell_end_list(&p);
  bool is_whole = shell_new_scope(&p, around, (plim_shell_scope){0}, &all.scope) &&
                  (vec_push(&p.blocks, all) || plim_shell_nomem(s)) && read_all(&p, *at);
  s->scope = around;
  *at = p.at;
  vec_free(&p.blocks);
  vec_free(&p.waiting);
  return is_whole;
}

static int by_begin(const void *x, const void *y) {
  const plim_shell_command *a = x, *b = y;
  return (a->begin > b->begin) - (a->begin < b->begin);
}

plim_err plim_shell_parse(const char *text, size_t size, plim_shell_script *out,
                          plim_error *error) {
  *out = (plim_shell_script){0};
  plim_shell_scan s = {.text = text, .end = size, .out = out, .error = error};
  size_t at = 0;
  if (!plim_shell_commands(&s, &at, 0)) {
    plim_shell_clear(out);
    return s.err;
  }
  if (out->commands.len)
    plim_sort(out->commands.at, out->commands.len, sizeof *out->commands.at, by_begin);
  return PLIM_OK;
}

void plim_shell_clear(plim_shell_script *script) {
  vec_free(&script->words);
  vec_free(&script->commands);
  vec_free(&script->comments);
  vec_free(&script->scopes);
  vec_free(&script->changed);
}

bool plim_shell_has_run(const plim_shell_scopes *scopes, size_t a, size_t b) {
  while (b > a) b = scopes->at[b].parent;
  return a == b;
}
