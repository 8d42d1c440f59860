#include "new_arguments.h"

#include <ctype.h>
#include <string.h>

static bool is_word(const char *text, const char *also) {
  if (!isalpha((unsigned char)*text) && *text != '_') return false;
  while (isalnum((unsigned char)*text) || (*text && strchr(also, *text))) text++;
  return !*text;
}

bool plim_is_flag_key(const char *key) {
  size_t dashes = strspn(key, "-");
  return (dashes == 1 || dashes == 2) && is_word(key + dashes, "_-.");
}

bool plim_is_variable_key(const char *key) { return *key == '$' && is_word(key + 1, "_"); }

bool plim_is_override_key(const char *key) { return is_word(key, "_-./@"); }

bool plim_bytes_add(plim_bytes *out, const char *text, size_t size) {
  if (!vec_reserve(out, size + 1)) return false;
  memcpy(out->at + out->len, text, size);
  out->len += size;
  out->at[out->len] = 0;
  return true;
}

plim_err plim_edit_insert(size_t at, const char *separator, const char *words, plim_edit *out,
                          plim_error *error) {
  plim_bytes text = {0};
  bool is_whole = plim_bytes_add(&text, separator, strlen(separator)) &&
                  plim_bytes_add(&text, words, strlen(words));
  plim_err err =
      is_whole ? plim_edit_make((plim_span){at, at}, text.at, out, error) : plim_no_memory(error);
  vec_free(&text);
  return err;
}

// ---- style ------------------------------------------------------------------------------------------

// The last flag of the command that has a value, or a bool if `is_bool`; new flags are written like it.
static const plim_shell_value *model(const plim_shell_scanner *f, size_t group, bool is_bool) {
  const plim_shell_value *best = NULL;
  for (size_t i = 0; i < f->at.len; i++) {
    const plim_shell_value *found = &f->at.at[i];
    if (found->kind != PLIM_FOUND_FLAG || found->group != group || found->is_bare) continue;
    if (is_bool && found->value.kind != PLIM_VALUE_BOOL) continue;
    if (!best || found->order >= best->order) best = found;
  }
  return best;
}

// `True` if the other flags of the command are written like that.
static const char *spelling(const plim_shell_scanner *f, const plim_shell_value *spoken) {
  if (!spoken) return "";
  const char *at = f->s->text + spoken->span.begin;
  size_t size = spoken->span.end - spoken->span.begin;
  if (memmem(at, size, "True", 4) || memmem(at, size, "False", 5)) return "True";
  return memmem(at, size, "TRUE", 4) || memmem(at, size, "FALSE", 5) ? "TRUE" : "true";
}

// ---- words ------------------------------------------------------------------------------------------

typedef struct {
  plim_bytes text, word, written;
} buffers;

// Appends b->word with the quotes that it needs.
static bool add_word(buffers *b, plim_word_context place, plim_bytes *out, bool *is_out) {
  if (!plim_word_write(place, "", 0, b->word.at, &b->written, is_out)) return false;
  *is_out = !plim_bytes_add(out, b->written.at, strlen(b->written.at));
  return !*is_out;
}

static bool set_word(buffers *b, const char *first, const char *sign, const char *second) {
  b->word.len = 0;
  return plim_bytes_add(&b->word, first, strlen(first)) &&
         plim_bytes_add(&b->word, sign, strlen(sign)) &&
         plim_bytes_add(&b->word, second, strlen(second));
}

static bool add_flag(buffers *b, const char *key, bool is_joined, plim_word_context place,
                     plim_bytes *out, bool *is_out) {
  const char *separator = place == PLIM_WORD_ELEMENT ? ", " : " ";
  bool is_set = set_word(b, key, is_joined ? "=" : "", is_joined ? b->text.at : "");
  if (!is_set) return *is_out = true, false;
  if (!add_word(b, place, out, is_out)) return false;
  if (is_joined) return true;
  *is_out = !plim_bytes_add(out, separator, strlen(separator)) || !set_word(b, b->text.at, "", "");
  return !*is_out && add_word(b, place, out, is_out);
}

static plim_err refuse(const char *key, plim_error *error) {
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "this value of %.96s cannot be written here", key);
}

static plim_err new_flag(const plim_shell_scanner *f, size_t group, const char *key,
                         const plim_value *value, plim_word_context place, buffers *b,
                         plim_bytes *out, plim_error *error) {
  const plim_shell_value *any = model(f, group, false), *spoken = model(f, group, true);
  bool is_out = false;
  if (value->kind == PLIM_VALUE_BOOL && !spoken) {
    if (value->flag && set_word(b, key, "", "") && add_word(b, place, out, &is_out)) return PLIM_OK;
    plim_err err = plim_fail(
        error, PLIM_ERR_UNSUPPORTED,
        "%.96s is off unless it is given, and it is not clear how this command writes false", key);
    plim_error_hint(error, "if it is on by default, add %.64s false", key);
    return err;
  }
  if (plim_value_to_text(value, spelling(f, spoken), &b->text, &is_out) &&
      add_flag(b, key, any && any->is_joined, place, out, &is_out))
    return PLIM_OK;
  return is_out ? plim_no_memory(error) : refuse(key, error);
}

static size_t roof_of(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? (size_t)(dot - key) + 1 : 0;
}

// Whether the override is written with one + before its name.
static bool has_one_plus(const plim_shell_scanner *f, const plim_shell_value *found) {
  size_t size = strlen(found->name), at = found->span.begin;
  const char *text = f->s->text;
  while (at > size && memcmp(text + at - size, found->name, size) != 0 && text[at - 1] != '\n')
    at--;
  if (at <= size || memcmp(text + at - size, found->name, size) != 0) return false;
  at -= size;
  return text[at - 1] == '+' && (at < 2 || text[at - 2] != '+');
}

// The sign for a new override: + if a key next to it has it, else ++, which works whether the key exists or not.
static const char *sign_for(const plim_shell_scanner *f, size_t group, const char *key) {
  size_t roof = roof_of(key);
  for (size_t i = 0; roof && i < f->at.len; i++) {
    const plim_shell_value *found = &f->at.at[i];
    bool is_beside = found->kind == PLIM_FOUND_OVERRIDE && found->group == group &&
                     roof_of(found->name) == roof && memcmp(found->name, key, roof) == 0;
    if (is_beside && has_one_plus(f, found)) return "+";
  }
  return "++";
}

static plim_err new_override(const char *sign, const char *key, const plim_value *value,
                             plim_word_context place, buffers *b, plim_bytes *out,
                             plim_error *error) {
  bool is_out = false;
  if (!plim_override_text(value, "", &b->text, &is_out))
    return is_out ? plim_no_memory(error) : refuse(key, error);
  b->word.len = 0;
  if (!plim_bytes_add(&b->word, sign, strlen(sign)) ||
      !plim_bytes_add(&b->word, key, strlen(key)) || !plim_bytes_add(&b->word, "=", 1) ||
      !plim_bytes_add(&b->word, b->text.at, strlen(b->text.at)))
    return plim_no_memory(error);
  if (add_word(b, place, out, &is_out)) return PLIM_OK;
  return is_out ? plim_no_memory(error) : refuse(key, error);
}

plim_err plim_new_words(const plim_shell_scanner *f, size_t group, const char *key,
                        const plim_value *value, plim_word_context place, plim_bytes *out,
                        plim_error *error) {
  buffers b = {0};
  plim_err err = plim_is_flag_key(key)
                     ? new_flag(f, group, key, value, place, &b, out, error)
                     : new_override(sign_for(f, group, key), key, value, place, &b, out, error);
  vec_free(&b.text);
  vec_free(&b.word);
  vec_free(&b.written);
  return err;
}
