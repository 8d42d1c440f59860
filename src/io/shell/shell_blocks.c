// Parses compound commands and operators.
#include <string.h>

#include "shell_parser.h"

#define BLOCKS 256 // the most nested blocks

static bool push_block(shell_parser *p, shell_block_kind kind) {
  if (p->blocks.len > BLOCKS)
    return plim_shell_fail(p->s, p->at, "blocks are nested too deeply here");
  shell_block block = {.kind = kind, .begin = p->at, .line = PLIM_NOWHERE};
  plim_shell_scope scope = {
      .is_test = kind == BLOCK_IF, .in_function = p->is_function, .in_loop = kind == BLOCK_LOOP};
  block.list_scope = p->list_scope;
  block.had_or = p->had_or;
  if (!shell_new_scope(p, shell_scope(p), scope, &block.scope)) return false;
  p->is_function = false;
  shell_end_list(p);
  return vec_push(&p->blocks, block) || plim_shell_nomem(p->s);
}

static bool pop_block(shell_parser *p, shell_block_kind kind) {
  if (p->blocks.len == 1 || shell_top(p)->kind != kind)
    return plim_shell_fail(p->s, p->at, "there is no open block here that this could close");
  p->list_scope = shell_top(p)->list_scope;
  p->had_or = shell_top(p)->had_or;
  p->last = PLIM_NOWHERE;
  p->blocks.len--;
  return true;
}

// Begins the scope of the next part of a block: after then, else, do or a case pattern.
static bool begin_scope(shell_parser *p) {
  shell_block *block = shell_top(p);
  size_t parent = p->s->out ? p->s->out->scopes.at[block->scope].parent : 0;
  shell_end_list(p);
  return shell_new_scope(p, parent, (plim_shell_scope){.in_loop = block->kind == BLOCK_LOOP},
                         &block->scope);
}

// ---- compound commands ------------------------------------------------------------------------------

static bool open_block(shell_parser *p, const char *word, shell_block_kind kind) {
  shell_begin_command(p);
  if (!push_block(p, kind)) return false;
  return p->at += strlen(word), true;
}

// Reads then, elif, else or do: the previous part ends, and no line can be inserted before the next command.
static bool begin_part(shell_parser *p, const char *word, shell_block_kind kind) {
  if (p->blocks.len == 1 || shell_top(p)->kind != kind)
    return plim_shell_fail(p->s, p->at, "this is outside the block that it belongs to");
  shell_top(p)->line = p->line = PLIM_NOWHERE;
  p->is_continued = false;
  return p->at += strlen(word), begin_scope(p);
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
  p->is_continued = p->is_function = true;
  return shell_peek(p, 0) != '(' || shell_peek(p, 1) == '(' || shell_skip_function_parens(p);
}

// Skips the words of `for NAME in ...`.
static bool skip_loop_words(shell_parser *p) {
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (shell_ends_command(p)) return true;
    if (!skip_one_word(p, "this is unexpected here")) return false;
  }
}

static bool read_for_name(shell_parser *p) {
  plim_span name = {p->at, p->at + plim_shell_name(p->s, p->at)};
  if (name.end == name.begin) return plim_shell_fail(p->s, p->at, "this loop has no variable");
  p->at = name.end;
  if (p->s->out && !vec_push(&p->s->out->changed, name)) return plim_shell_nomem(p->s);
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
  size_t length = plim_shell_parens(p->s, p->at), begin = p->at;
  if (!length) return plim_shell_fail(p->s, begin, "this (( is never closed");
  return p->at += length, plim_shell_note_arithmetic(p->s, begin, p->at);
}

static bool open_case(shell_parser *p, const char *word, shell_block_kind kind) {
  if (!open_block(p, word, kind)) return false;
  plim_shell_skip_blanks(p->s, &p->at);
  if (!skip_one_word(p, "this case has no word to test") || !shell_skip_space(p)) return false;
  if (!shell_is_at_word(p, "in")) return plim_shell_fail(p->s, p->at, "this case has no \"in\"");
  shell_top(p)->expects_pattern = true;
  return p->at += 2, true;
}

// Skips [[ ... ]], where && and || are not shell operators.
static bool skip_test(shell_parser *p, const char *word, shell_block_kind kind) {
  size_t begin = p->at;
  skip_prefix(p, word, kind);
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (p->at >= p->s->end) return plim_shell_fail(p->s, begin, "this [[ is never closed");
    if (shell_is_at_word(p, "]]")) break;
    size_t at = p->at;
    if (!plim_shell_skip_word(p->s, &p->at)) return false;
    if (p->at == at) p->at++;
  }
  p->at += 2;
  plim_shell_command c = {.begin = begin, .line = PLIM_NOWHERE};
  return shell_note_command(p, c, &(plim_span){begin, p->at}, 1);
}

static bool read_patterns(shell_parser *p) {
  size_t begin = p->at;
  p->at += shell_peek(p, 0) == '(';
  for (;;) {
    plim_shell_skip_blanks(p->s, &p->at);
    if (!skip_one_word(p, "a pattern is expected here")) return false;
    plim_shell_skip_blanks(p->s, &p->at);
    if (shell_peek(p, 0) == ')') break;
    if (shell_peek(p, 0) != '|')
      return plim_shell_fail(p->s, begin, "this pattern is missing its )");
    p->at++;
  }
  shell_top(p)->expects_pattern = false;
  shell_top(p)->line = p->line = PLIM_NOWHERE;
  return p->at++, begin_scope(p);
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

// ---- operators --------------------------------------------------------------------------------------

static bool open_paren(shell_parser *p) {
  size_t inner = shell_peek(p, 1) == '(' ? plim_shell_parens(p->s, p->at + 1) : 0;
  bool is_arithmetic = inner && shell_peek(p, 1 + inner) == ')';
  if (!is_arithmetic) return open_block(p, "(", BLOCK_PAREN);
  shell_begin_command(p);
  size_t begin = p->at;
  p->at += inner + 2;
  return plim_shell_note_arithmetic(p->s, begin, p->at);
}

static bool close_paren(shell_parser *p) {
  if (p->blocks.len > 1 || p->closer != ')') return close_block(p, ")", BLOCK_PAREN);
  return p->at++, p->is_closed = p->is_done = true;
}

static bool end_branch(shell_parser *p) {
  if (p->blocks.len == 1 || shell_top(p)->kind != BLOCK_CASE)
    return plim_shell_fail(p->s, p->at, "this is outside a branch of a case");
  shell_top(p)->expects_pattern = true;
  while (shell_peek(p, 0) == ';' || shell_peek(p, 0) == '&') p->at++;
  return true;
}

// After && and || the next command may not run, so it gets a scope of its own. In a && b && c, b has run if c runs, so
// both share one scope.
static bool continue_list(shell_parser *p, bool is_and) {
  size_t block = shell_top(p)->scope, now = shell_scope(p);
  bool is_same =
      is_and && !p->had_or && now != block && p->s->out && p->s->out->scopes.at[now].is_and;
  p->had_or |= !is_and;
  p->last = PLIM_NOWHERE;
  return is_same || shell_new_scope(p, block, (plim_shell_scope){.is_and = is_and}, &p->list_scope);
}

// Gives the commands from `first` on their own scopes: they run in a subshell, and their variables are lost after it.
static bool move_to_subshell(shell_parser *p, size_t first) {
  plim_shell_script *out = p->s->out;
  for (size_t i = first; out && i < out->commands.len; i++) {
    plim_shell_command *c = &out->commands.at[i];
    bool is_direct = c->scope == shell_top(p)->scope || i == p->last;
    if (is_direct && !shell_new_scope(p, c->scope, (plim_shell_scope){0}, &c->scope)) return false;
  }
  return true;
}

static bool read_pipe(shell_parser *p) {
  bool ok = p->last == PLIM_NOWHERE || move_to_subshell(p, p->last);
  p->last = PLIM_NOWHERE;
  return ok && shell_new_scope(p, shell_scope(p), (plim_shell_scope){0}, &p->list_scope);
}

static bool end_list(shell_parser *p, bool is_background) {
  bool ok = !is_background || move_to_subshell(p, p->list_first);
  shell_end_list(p);
  return ok;
}

static bool read_operator(shell_parser *p) {
  if (shell_is_at(p, ";;") || shell_is_at(p, ";&")) return end_branch(p);
  if (shell_peek(p, 0) == '(') return open_paren(p);
  if (shell_peek(p, 0) == ')') return close_paren(p);
  bool is_and = shell_is_at(p, "&&"), is_or = shell_is_at(p, "||");
  char sign = shell_peek(p, 0);
  p->at += is_and || is_or || shell_is_at(p, "|&") ? 2 : 1;
  p->is_continued = is_and || sign == '|';
  p->line = PLIM_NOWHERE;
  if (is_and || is_or) return continue_list(p, is_and);
  return sign == '|' ? read_pipe(p) : end_list(p, sign == '&');
}

bool shell_read_next(shell_parser *p) {
  bool is_in_case = p->blocks.len > 1 && shell_top(p)->expects_pattern;
  p->s->scope = shell_scope(p);
  if (!shell_skip_space(p)) return false;
  if (p->at >= p->s->end) return p->is_done = true;
  if (is_in_case && !shell_is_at_word(p, "esac")) return read_patterns(p);
  if (strchr("|&;()", shell_peek(p, 0)) && !shell_redirection(p)) return read_operator(p);
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
    if (shell_is_at_word(p, keywords[i].word))
      return keywords[i].read(p, keywords[i].word, keywords[i].kind);
  return shell_read_command(p);
}
