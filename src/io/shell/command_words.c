#include "command_words.h"

#include "dockerfile.h"
#include "shell_script.h"

static plim_err visit_shell(const char *text, size_t size, plim_word_visitor *visit, void *to) {
  plim_shell_script script;
  plim_err err = plim_shell_parse(text, size, &script, NULL);
  if (err) return err;
  for (size_t i = 0; i < script.commands.len; i++) {
    const plim_shell_command *c = &script.commands.at[i];
    if (c->substitutions || c->list.end) continue;
    for (size_t k = c->first; k < c->first + c->count; k++) {
      plim_span word = script.words.at[k];
      visit(to, i, text + word.begin, word.end - word.begin);
    }
  }
  plim_shell_clear(&script);
  return PLIM_OK;
}

// ---- images -----------------------------------------------------------------------------------------

// The first bytes of ENTRYPOINT and CMD of the last stage; PLIM_NOWHERE if it has none.
typedef struct {
  size_t entry, cmd;
  bool has_array; // ENTRYPOINT is an array, and CMD contains its arguments
} start;

static bool is_array(plim_docker *d) {
  plim_arguments words = {0};
  bool is = plim_docker_array(d, &words);
  vec_free(&words);
  return is;
}

static plim_err find_start(const char *text, size_t size, start *out) {
  plim_docker d = plim_docker_begin(text, size);
  *out = (start){PLIM_NOWHERE, PLIM_NOWHERE, false};
  while (plim_docker_next(&d)) {
    if (plim_docker_is(&d, "FROM")) *out = (start){PLIM_NOWHERE, PLIM_NOWHERE, false};
    if (plim_docker_is(&d, "CMD")) out->cmd = d.span.begin;
    if (!plim_docker_is(&d, "ENTRYPOINT")) continue;
    out->entry = d.span.begin;
    out->has_array = is_array(&d);
  }
  plim_err err = d.is_out ? PLIM_ERR_NOMEM : PLIM_OK;
  plim_docker_end(&d);
  return err;
}

static void visit_array(const plim_docker *d, const plim_arguments *words, plim_word_visitor *visit,
                        void *to) {
  for (size_t i = 0; i < words->len; i++) {
    plim_span word = words->at[i].span;
    bool is_quoted = word.end - word.begin >= 2 && d->line.at[word.begin] == '"';
    size_t quote = is_quoted ? 1 : 0;
    visit(to, 0, d->line.at + word.begin + quote, word.end - word.begin - 2 * quote);
  }
}

static plim_err visit_instruction(const char *text, size_t size, size_t begin,
                                  plim_word_visitor *visit, void *to) {
  plim_docker d = plim_docker_begin(text, size);
  plim_arguments words = {0};
  plim_err err = PLIM_OK;
  while (plim_docker_next(&d)) {
    if (d.span.begin != begin) continue;
    if (plim_docker_array(&d, &words)) visit_array(&d, &words, visit, to);
    else err = visit_shell(d.line.at + d.rest.begin, d.rest.end - d.rest.begin, visit, to);
    break;
  }
  if (d.is_out) err = PLIM_ERR_NOMEM;
  vec_free(&words);
  plim_docker_end(&d);
  return err;
}

static plim_err visit_image(const char *text, size_t size, plim_word_visitor *visit, void *to) {
  start s;
  plim_err err = find_start(text, size, &s);
  bool has_entry = s.entry != PLIM_NOWHERE, has_cmd = s.cmd != PLIM_NOWHERE;
  if (!err && has_entry) err = visit_instruction(text, size, s.entry, visit, to);
  if (!err && has_cmd && (!has_entry || s.has_array))
    err = visit_instruction(text, size, s.cmd, visit, to);
  return err;
}

plim_err plim_command_words(plim_format format, const char *text, size_t size,
                            plim_word_visitor *visit, void *to) {
  if (format == PLIM_FORMAT_SHELL) return visit_shell(text, size, visit, to);
  return format == PLIM_FORMAT_DOCKERFILE ? visit_image(text, size, visit, to) : PLIM_OK;
}
