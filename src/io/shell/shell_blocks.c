// Compound commands and operators.
#include <string.h>

#include "shell_parser.h"

#define BLOCKS 256 // within each other

static bool push_block(shell_parser *p, shell_block_kind kind) {
  if (p->blocks.len > BLOCKS)
    return plim_shell_fail(p->s, p->at, "blocks are nested too deep here");
  return vec_push(&p->blocks, (shell_block){kind, p->at, PLIM_NOWHERE, false}) ||
         plim_shell_nomem(p->s);
}

static bool pop_block(shell_parser *p, shell_block_kind kind) {
  if (p->blocks.len == 1 || shell_top(p)->kind != kind)
    return plim_shell_fail(p->s, p->at, "this closes nothing that is open here");
  p->blocks.len--;
  return true;
}

// ---- compound commands ------------------------------------------------------------------------------

static bool open_block(shell_parser *p, const char *word, shell_block_kind kind) {
  shell_begin_command(p);
  if (!push_block(p, kind)) return false;
  return p->at += strlen(word), true;
}

// then, else, do: the part before has ended, and nothing may be put before what comes.
static bool begin_part(shell_parser *p, const char *word, shell_block_kind kind) {
  if (p->blocks.len == 1 || shell_top(p)->kind != kind)
    return plim_shell_fail(p->s, p->at, "this stands in no block that it belongs to");
  shell_top(p)->line = p->line = PLIM_NOWHERE;
  return p->at += strlen(word), true;
}

static bool close_block(shell_parser *p, const char *word, shell_block_kind kind) {
  p->line = PLIM_NOWHERE;
  if (!pop_block(p, kind)) return false;
  return p->at += strlen(word), true;
}

static bool skip_prefix(shell_parser *p, const char *word, shell_block_kind kind) {
  (void)kind;
  shell_begin_command(p);
  return p->at += strlen(word), true;
}

static bool skip_one_word(shell_parser *p, const char *missing) {
  size_t begin = p->at;
  if (!plim_shell_skip_word(p->s, &p->at)) return false;
  return p->at > begin || plim_shell_fail(p->s, begin, missing);
}

static bool skip_function(shell_parser *p, const char *word, shell_block_kind kind) {
  skip_prefix(p, word, kind);
  plim_shell_skip_blanks(p->s, &p->at);
  if (!skip_one_word(p, "this function has no name")) return false;
  plim_shell_skip_blanks(p->s, &p->at);
  p->is_continued = true;
  return shell_peek(p, 0) != '(' || shell_peek(p, 1) == '(' || shell_skip_function_parens(p);
}

// The words of `for NAME in ...`.
static bool skip_loop_words(shell_parser *p) {
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (shell_ends_command(p)) return true;
    if (!skip_one_word(p, "this is not expected here")) return false;
  }
}

static bool read_for_name(shell_parser *p) {
  plim_span name = {p->at, p->at + plim_shell_name(p->s, p->at)};
  if (name.end == name.begin) return plim_shell_fail(p->s, p->at, "this loop has no variable");
  p->at = name.end;
  if (p->s->out && !vec_push(&p->s->out->loops, name)) return plim_shell_nomem(p->s);
  plim_shell_skip_blanks(p->s, &p->at);
  while (plim_shell_newline(p->s, p->at)) {
    p->at += plim_shell_newline(p->s, p->at);
    plim_shell_skip_blanks(p->s, &p->at);
  }
  if (!shell_is_at_word(p, "in")) return true;
  return p->at += 2, skip_loop_words(p);
}

static bool open_for(shell_parser *p, const char *word, shell_block_kind kind) {
  if (!open_block(p, word, kind)) return false;
  plim_shell_skip_blanks(p->s, &p->at);
  if (!shell_is_at(p, "((")) return read_for_name(p);
  size_t length = plim_shell_parens(p->s, p->at);
  return length ? (p->at += length, true) : plim_shell_fail(p->s, p->at, "this (( is never closed");
}

static bool open_case(shell_parser *p, const char *word, shell_block_kind kind) {
  if (!open_block(p, word, kind)) return false;
  plim_shell_skip_blanks(p->s, &p->at);
  if (!skip_one_word(p, "this case has no word") || !shell_skip_space(p)) return false;
  if (!shell_is_at_word(p, "in")) return plim_shell_fail(p->s, p->at, "this case has no in");
  shell_top(p)->expects_pattern = true;
  return p->at += 2, true;
}

// Over [[ ... ]], whose operators are no shell operators.
static bool skip_test(shell_parser *p, const char *word, shell_block_kind kind) {
  size_t begin = p->at;
  skip_prefix(p, word, kind);
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (p->at >= p->s->end) return plim_shell_fail(p->s, begin, "this [[ is never closed");
    if (shell_is_at_word(p, "]]")) return p->at += 2, true;
    size_t at = p->at;
    if (!plim_shell_skip_word(p->s, &p->at)) return false;
    if (p->at == at) p->at++;
  }
}

static bool read_patterns(shell_parser *p) {
  size_t begin = p->at;
  p->at += shell_peek(p, 0) == '(';
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (!skip_one_word(p, "a pattern is expected here")) return false;
    plim_shell_skip_blanks(p->s, &p->at);
    if (shell_peek(p, 0) == ')') break;
    if (shell_peek(p, 0) != '|') return plim_shell_fail(p->s, begin, "this pattern has no )");
    p->at++;
  }
  shell_top(p)->expects_pattern = false;
  shell_top(p)->line = p->line = PLIM_NOWHERE;
  return p->at++, true;
}

static const struct {
  const char *word;
  bool (*read)(shell_parser *p, const char *word, shell_block_kind kind);
  shell_block_kind kind;
} keywords[] = {
    {"if", open_block, BLOCK_IF},      {"then", begin_part, BLOCK_IF},
    {"elif", begin_part, BLOCK_IF},    {"else", begin_part, BLOCK_IF},
    {"fi", close_block, BLOCK_IF},     {"while", open_block, BLOCK_LOOP},
    {"until", open_block, BLOCK_LOOP}, {"do", begin_part, BLOCK_LOOP},
    {"done", close_block, BLOCK_LOOP}, {"{", open_block, BLOCK_BRACE},
    {"}", close_block, BLOCK_BRACE},   {"for", open_for, BLOCK_LOOP},
    {"select", open_for, BLOCK_LOOP},  {"case", open_case, BLOCK_CASE},
    {"esac", close_block, BLOCK_CASE}, {"[[", skip_test, BLOCK_IF},
    {"!", skip_prefix, BLOCK_IF},      {"time", skip_prefix, BLOCK_IF},
    {"coproc", skip_prefix, BLOCK_IF}, {"function", skip_function, BLOCK_IF},
};

static bool read_keyword_or_command(shell_parser *p) {
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (shell_is_at_word(p, keywords[i].word))
      return keywords[i].read(p, keywords[i].word, keywords[i].kind);
  return shell_read_command(p);
}

// ---- operators --------------------------------------------------------------------------------------

static bool is_arithmetic_assignment(const char *at, size_t size) {
  if (size >= 2 && (memcmp(at, "++", 2) == 0 || memcmp(at, "--", 2) == 0)) return true;
  bool is_changed = size >= 2 && strchr("+-*/%", at[0]);
  return size > is_changed && at[is_changed] == '=' &&
         (size == is_changed + 1u || at[is_changed + 1] != '=');
}

// Names that (( ... )) assigns to.
static bool note_arithmetic(shell_parser *p, size_t end) {
  for (size_t at = p->at; at < end;) {
    size_t n = plim_shell_name(p->s, at), next = at + n;
    while (n && next < end && p->s->text[next] == ' ') next++;
    if (n && p->s->out && is_arithmetic_assignment(p->s->text + next, end - next) &&
        !vec_push(&p->s->out->loops, (plim_span){at, at + n}))
      return plim_shell_nomem(p->s);
    at += n ? n : 1;
  }
  return true;
}

static bool open_paren(shell_parser *p) {
  size_t inner = shell_peek(p, 1) == '(' ? plim_shell_parens(p->s, p->at + 1) : 0;
  bool is_arithmetic = inner && shell_peek(p, 1 + inner) == ')';
  if (!is_arithmetic) return open_block(p, "(", BLOCK_PAREN);
  shell_begin_command(p);
  if (!note_arithmetic(p, p->at + inner + 2)) return false;
  return p->at += inner + 2, true;
}

static bool close_paren(shell_parser *p) {
  if (p->blocks.len > 1 || p->closer != ')') return close_block(p, ")", BLOCK_PAREN);
  return p->at++, p->is_closed = p->is_done = true;
}

static bool end_branch(shell_parser *p) {
  if (p->blocks.len == 1 || shell_top(p)->kind != BLOCK_CASE)
    return plim_shell_fail(p->s, p->at, "this ends no branch of a case");
  shell_top(p)->expects_pattern = true;
  while (shell_peek(p, 0) == ';' || shell_peek(p, 0) == '&') p->at++;
  return true;
}

static bool read_operator(shell_parser *p) {
  if (shell_is_at(p, ";;") || shell_is_at(p, ";&")) return end_branch(p);
  if (shell_peek(p, 0) == '(') return open_paren(p);
  if (shell_peek(p, 0) == ')') return close_paren(p);
  bool is_list = shell_is_at(p, "&&") || shell_peek(p, 0) == '|';
  p->at += shell_is_at(p, "&&") || shell_is_at(p, "||") || shell_is_at(p, "|&") ? 2 : 1;
  p->is_continued = is_list;
  p->line = PLIM_NOWHERE;
  return true;
}

bool shell_read_next(shell_parser *p) {
  bool is_in_case = p->blocks.len > 1 && shell_top(p)->expects_pattern;
  if (!shell_skip_space(p)) return false;
  if (p->at >= p->s->end) return p->is_done = true;
  if (is_in_case && !shell_is_at_word(p, "esac")) return read_patterns(p);
  if (strchr("|&;()", shell_peek(p, 0)) && !shell_redirection(p)) return read_operator(p);
  return read_keyword_or_command(p);
}
