#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "lora_pattern.h"
#include "suggest.h"

typedef struct {
  const cli_command *command;
  const char *left_out;
  const library_words *words;
  library_request *r;
  plim_error *error;
} reader;

static plim_err fail_at(plim_error *error, size_t byte, plim_err err) {
  plim_error_at(error, byte);
  return err;
}

static plim_err wrong_kind(const reader *q, const char *name, uint32_t id, const char *what) {
  plim_err err = plim_fail(q->error, PLIM_ERR_ARGUMENT, "\"%s\" must be %s", name, what);
  return fail_at(q->error, q->r->tree.at.at[id].span.begin, err);
}

// ---- options ----------------------------------------------------------------------------------------

static bool is_left_out(const reader *q, const cli_option *option) {
  size_t length = strlen(option->name);
  for (const char *at = q->left_out; at && (at = strstr(at, option->name)); at += length) {
    bool begins = at == q->left_out || at[-1] == ' ';
    if (begins && (at[length] == ' ' || !at[length])) return true;
  }
  return false;
}

static const cli_option *option_named(const reader *q, const char *name) {
  for (const cli_option *o = q->command->options; o->name; o++) {
    char member[64];
    cli_member_name(o, member, sizeof member);
    if (strcmp(member, name) == 0 && !is_left_out(q, o)) return o;
  }
  return NULL;
}

static plim_err unknown(const reader *q, const char *name, uint32_t key) {
  enum { MOST = 256 };
  char members[MOST][64];
  const char *names[MOST + 1];
  size_t count = 0;
  for (const cli_option *o = q->command->options; o->name && count < MOST; o++) {
    if (is_left_out(q, o)) continue;
    cli_member_name(o, members[count], sizeof members[count]);
    names[count] = members[count], count++;
  }
  if (q->words) names[count++] = q->words->name;
  const char *near = plim_suggest(name, names, count);
  plim_err err = plim_fail(q->error, PLIM_ERR_ARGUMENT, "a request of %s has no member \"%.64s\"",
                           q->command->name, name);
  if (near) plim_error_hint(q->error, "did you mean \"%s\"?", near);
  else plim_error_hint(q->error, "the members are the options of plimsoll %s", q->command->name);
  return fail_at(q->error, q->r->tree.at.at[key].span.begin, err);
}

// Whether the option takes the value as it is written in the request: a number, or the object of a model.
static bool is_taken_as_written(const cli_option *o, const plim_node *n) {
  if (n->kind == PLIM_NODE_MAPPING) return o->kind == CLI_MODEL;
  return n->kind == PLIM_NODE_SCALAR &&
         (n->value.kind == PLIM_VALUE_INTEGER || n->value.kind == PLIM_VALUE_REAL);
}

static plim_err set_one(const reader *q, const cli_option *o, const char *name, uint32_t id) {
  plim_tree *t = &q->r->tree;
  const plim_node *n = &t->at.at[id];
  bool is_text = n->kind == PLIM_NODE_SCALAR && n->value.kind == PLIM_VALUE_TEXT;
  bool is_copied = is_taken_as_written(o, n);
  size_t begin = n->span.begin;
  const char *text = is_copied ? plim_tree_keep(t, t->text + begin, n->span.end - begin)
                     : is_text ? n->text
                               : NULL;
  if (!text && is_copied) return plim_no_memory(q->error);
  if (!text)
    return wrong_kind(q, name, id,
                      o->kind == CLI_MODEL      ? "a name, a path or an object"
                      : cli_kinds[o->kind].what ? cli_kinds[o->kind].what
                                                : "a text or a number");
  plim_error cause = {0};
  plim_err err = cli_option_set(o, q->r->call.args, text, &cause);
  if (!err) return PLIM_OK;
  plim_fail(q->error, err, "\"%s\": %s", name, cause.message);
  if (*cause.hint) plim_error_hint(q->error, "%s", cause.hint);
  return fail_at(q->error, begin, err);
}

static plim_err set_flag(const reader *q, const cli_option *o, const char *name, uint32_t id,
                         bool *is_given) {
  const plim_node *n = &q->r->tree.at.at[id];
  bool is_bool = n->kind == PLIM_NODE_SCALAR && n->value.kind == PLIM_VALUE_BOOL;
  if (!is_bool) return wrong_kind(q, name, id, "true or false");
  *is_given = n->value.flag;
  *(bool *)(void *)((char *)q->r->call.args + o->offset) = n->value.flag;
  return PLIM_OK;
}

static plim_err set_list(const reader *q, const cli_option *o, const char *name, uint32_t id) {
  const plim_tree *t = &q->r->tree;
  plim_err err = PLIM_OK;
  if (t->at.at[id].kind != PLIM_NODE_SEQUENCE) return set_one(q, o, name, id);
  for (uint32_t item = t->at.at[id].first; !err && item != PLIM_NO_NODE; item = t->at.at[item].next)
    err = set_one(q, o, name, item);
  return err;
}

static plim_err set(const reader *q, const cli_option *o, const char *name, uint32_t id) {
  bool is_given = true;
  plim_err err = o->kind == CLI_FLAG        ? set_flag(q, o, name, id, &is_given)
                 : cli_is_repeated(o->kind) ? set_list(q, o, name, id)
                                            : set_one(q, o, name, id);
  if (err || !is_given || vec_push(&q->r->call.given, o->offset)) return err;
  return plim_no_memory(q->error);
}

// ---- paths ------------------------------------------------------------------------------------------

static plim_err add_path(const reader *q, uint32_t id) {
  const plim_node *n = &q->r->tree.at.at[id];
  bool is_text = n->kind == PLIM_NODE_SCALAR && n->value.kind == PLIM_VALUE_TEXT && n->text;
  if (!is_text) return wrong_kind(q, q->words->name, id, "a path, or a list of paths");
  return vec_push(&q->r->call.words, n->text) ? PLIM_OK : plim_no_memory(q->error);
}

static plim_err add_paths(const reader *q, uint32_t id) {
  const plim_tree *t = &q->r->tree;
  plim_err err = PLIM_OK;
  if (t->at.at[id].kind != PLIM_NODE_SEQUENCE) return add_path(q, id);
  for (uint32_t item = t->at.at[id].first; !err && item != PLIM_NO_NODE; item = t->at.at[item].next)
    err = add_path(q, item);
  return err;
}

// ---- the request ------------------------------------------------------------------------------------

static bool is_null(const plim_node *n) {
  return n->kind == PLIM_NODE_SCALAR && n->value.kind == PLIM_VALUE_NULL;
}

static plim_err read_member(const reader *q, uint32_t id) {
  const plim_tree *t = &q->r->tree;
  uint32_t key = t->at.at[id].key;
  const char *name = t->at.at[key].text;
  if (!name) name = "";
  if (q->words && strcmp(name, q->words->name) == 0) return add_paths(q, id);
  const cli_option *o = option_named(q, name);
  if (!o) return unknown(q, name, key);
  return is_null(&t->at.at[id]) ? PLIM_OK : set(q, o, name, id);
}

static plim_err read_members(const reader *q) {
  const plim_tree *t = &q->r->tree;
  plim_err err = PLIM_OK;
  if (t->roots.len != 1 || t->at.at[t->roots.at[0]].kind != PLIM_NODE_MAPPING)
    return fail_at(q->error, 0,
                   plim_fail(q->error, PLIM_ERR_PARSE, "the request is not one JSON object"));
  for (uint32_t id = t->at.at[t->roots.at[0]].first; !err && id != PLIM_NO_NODE;
       id = t->at.at[id].next)
    err = read_member(q, id);
  if (!err && q->words && q->words->is_needed && !q->r->call.words.len)
    err = plim_fail(q->error, PLIM_ERR_ARGUMENT, "the request lacks \"%s\"", q->words->name);
  return err;
}

plim_err library_read(const char *text, const cli_command *command, const char *left_out,
                      const library_words *words, library_request *r, plim_error *error) {
  reader q = {command, left_out, words, r, error};
  *r = (library_request){.call = {.command = command, .args = malloc(command->args_size)}};
  if (error) *error = (plim_error){.byte = PLIM_UNKNOWN};
  if (!r->call.args) return plim_no_memory(error);
  memcpy(r->call.args, command->defaults, command->args_size);
  if (!*text) return fail_at(error, 0, plim_fail(error, PLIM_ERR_PARSE, "the request is empty"));
  plim_err err = plim_json_parse(text, strlen(text), &r->tree, error);
  return err ? err : read_members(&q);
}

// The C library has this locale at hand: it takes no memory.
locale_t library_enter(void) {
  locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return own ? uselocale(own) : own;
}

void library_leave(locale_t before) {
  plim_lora_pattern_forget();
  if (before) freelocale(uselocale(before));
}

void library_forget_byte(plim_err err, const char *source, plim_error *error) {
  if (err && source) plim_error_at(error, PLIM_UNKNOWN);
}

void library_clear(library_request *r) {
  if (r->call.args) cli_call_clear(&r->call);
  plim_tree_clear(&r->tree);
}
