// A transaction as text: one fact per line in a fixed order, and a digest of it all at the end.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transaction.h"

#define TITLE "plimsoll journal 1\n"
#define HEX_BYTES (2 * PLIM_SHA256_BYTES)

enum { APPLY, UNDO, LEND, KINDS };
static const char *const kind_names[KINDS] = {"apply", "undo", "lend"};
static const char *const state_names[] = {"preparing", "ready"};

static int kind_of(const plim_transaction *t) {
  return t->kind == PLIM_CHANGES_UNDO ? UNDO : t->is_lent ? LEND : APPLY;
}

// ---- writing ----------------------------------------------------------------------------------

static void write_hex(FILE *out, const uint8_t *bytes) {
  for (int i = 0; i < PLIM_SHA256_BYTES; i++) fprintf(out, "%02x", bytes[i]);
}

static void write_path(FILE *out, const char *path) {
  for (const unsigned char *at = (const unsigned char *)path; *at; at++)
    if (*at < 0x20 || *at == 0x7f || *at == '%') fprintf(out, "%%%02x", *at);
    else fputc(*at, out);
}

static void write_content(FILE *out, const char *key, const plim_content *content) {
  fprintf(out, "%s ", key);
  if (!content->exists) fprintf(out, "absent\n");
  else write_hex(out, content->sha256), fprintf(out, " %llu\n", (unsigned long long)content->size);
}

static void write_number(FILE *out, const char *key, int number) {
  if (number == PLIM_NO_BACKUP) fprintf(out, "%s none\n", key);
  else fprintf(out, "%s %d\n", key, number);
}

static void write_step(FILE *out, const plim_file_step *step) {
  fprintf(out, "file ");
  write_path(out, step->path);
  fprintf(out, "\n");
  write_content(out, "from", &step->from);
  write_content(out, "to", &step->to);
  write_number(out, "kept", step->kept);
  write_number(out, "dropped", step->dropped);
}

static void write_all(FILE *out, const plim_transaction *t) {
  fprintf(out, TITLE "kind %s\nstate %s\nid %08x\nrecord %u\n", kind_names[kind_of(t)],
          state_names[t->is_ready], t->id, t->record);
  for (size_t i = 0; i < t->steps.len; i++) write_step(out, &t->steps.at[i]);
}

static void write_digest(FILE *out, const char *text, size_t size) {
  uint8_t digest[PLIM_SHA256_BYTES];
  plim_sha256(text, size, digest);
  fprintf(out, "sha256 ");
  write_hex(out, digest);
  fprintf(out, "\n");
}

char *plim_journal_write(const plim_transaction *t, size_t *size) {
  char *text = NULL;
  FILE *out = open_memstream(&text, size);
  if (!out) return NULL;
  write_all(out, t);
  if (fflush(out) == 0) write_digest(out, text, *size);
  bool failed = ferror(out);
  if (fclose(out) == 0 && !failed) return text;
  free(text);
  return NULL;
}

// ---- reading ----------------------------------------------------------------------------------

typedef struct {
  const char *begin, *at, *end;
} reader;

typedef struct {
  const char *at;
  size_t size;
} word;

// The rest of the next line, which must start with this key.
static bool take(reader *r, const char *key, word *value) {
  size_t key_size = strlen(key);
  const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
  if (!newline || (size_t)(newline - r->at) <= key_size) return false;
  if (memcmp(r->at, key, key_size) != 0 || r->at[key_size] != ' ') return false;
  const char *begin = r->at + key_size + 1;
  *value = (word){begin, (size_t)(newline - begin)};
  r->at = newline + 1;
  return true;
}

static bool is_word(word value, const char *text) {
  return value.size == strlen(text) && memcmp(value.at, text, value.size) == 0;
}

static bool take_name(reader *r, const char *key, const char *const *names, int count, int *out) {
  word value;
  if (!take(r, key, &value)) return false;
  for (*out = 0; *out < count; ++*out)
    if (is_word(value, names[*out])) return true;
  return false;
}

static bool number_of(word value, int base, unsigned long long limit, unsigned long long *out) {
  char text[32];
  if (!value.size || value.size >= sizeof text) return false;
  for (size_t i = 0; i < value.size; i++)
    if (!isxdigit((unsigned char)value.at[i])) return false;
  memcpy(text, value.at, value.size);
  text[value.size] = '\0';
  char *end;
  errno = 0;
  *out = strtoull(text, &end, base);
  return !errno && !*end && *out <= limit;
}

static int digit_of(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static bool hex_bytes(const char *text, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; i++) {
    if (!isxdigit((unsigned char)text[2 * i]) || !isxdigit((unsigned char)text[2 * i + 1]))
      return false;
    out[i] = (uint8_t)(digit_of(text[2 * i]) * 16 + digit_of(text[2 * i + 1]));
  }
  return true;
}

static bool take_content(reader *r, const char *key, plim_content *out) {
  word value;
  unsigned long long size;
  *out = (plim_content){0};
  if (!take(r, key, &value)) return false;
  if (is_word(value, "absent")) return true;
  if (value.size < HEX_BYTES + 2 || value.at[HEX_BYTES] != ' ') return false;
  word number = {value.at + HEX_BYTES + 1, value.size - HEX_BYTES - 1};
  if (!number_of(number, 10, SIZE_MAX, &size)) return false;
  out->exists = true;
  out->size = size;
  return hex_bytes(value.at, PLIM_SHA256_BYTES, out->sha256);
}

static bool take_backup(reader *r, const char *key, int *out) {
  word value;
  unsigned long long number = 0;
  if (!take(r, key, &value)) return false;
  *out = PLIM_NO_BACKUP;
  if (is_word(value, "none")) return true;
  if (!number_of(value, 10, INT32_MAX, &number)) return false;
  *out = (int)number;
  return true;
}

// Whether a path is below the project or absolute, without "..": the names of all changed files begin with it.
static bool is_plain(const char *path) {
  if (!*path || path[strlen(path) - 1] == '/') return false;
  for (const char *at = path; at; at = strchr(at, '/')) {
    at += *at == '/';
    size_t size = strcspn(at, "/");
    if ((size == 2 && !memcmp(at, "..", 2)) || (size == 1 && *at == '.')) return false;
    if (!size) return false;
  }
  return true;
}

static char *take_path(reader *r) {
  word value;
  if (!take(r, "file", &value)) return NULL;
  char *path = calloc(value.size + 1, 1), *to = path;
  bool ok = path != NULL;
  for (size_t i = 0; ok && i < value.size; i++, to++) {
    *to = value.at[i];
    if (*to != '%') continue;
    ok = i + 2 < value.size && hex_bytes(value.at + i + 1, 1, (uint8_t *)to);
    i += 2;
  }
  if (ok && strlen(path) == (size_t)(to - path) && is_plain(path)) return path;
  free(path);
  return NULL;
}

static bool has(int backup) { return backup != PLIM_NO_BACKUP; }

static bool makes_sense(const plim_transaction *t, const plim_file_step *s) {
  if (!s->from.exists && has(s->kept)) return false;
  if (t->kind == PLIM_CHANGES_APPLY) return !has(s->dropped) && has(s->kept) == s->from.exists;
  return has(s->dropped) == s->to.exists && (!has(s->kept) || s->kept != s->dropped);
}

static bool take_step(reader *r, plim_transaction *t) {
  plim_file_step step = {.path = take_path(r)};
  bool ok = step.path && take_content(r, "from", &step.from) && take_content(r, "to", &step.to) &&
            take_backup(r, "kept", &step.kept) && take_backup(r, "dropped", &step.dropped) &&
            makes_sense(t, &step) && vec_push(&t->steps, step);
  if (!ok) free(step.path);
  return ok;
}

static bool take_head(reader *r, plim_transaction *t) {
  int kind = 0, state = 0;
  unsigned long long id = 0, record = 0;
  word value;
  size_t title = strlen(TITLE);
  if ((size_t)(r->end - r->at) < title || memcmp(r->at, TITLE, title) != 0) return false;
  r->at += title;
  bool ok = take_name(r, "kind", kind_names, KINDS, &kind) &&
            take_name(r, "state", state_names, 2, &state) && take(r, "id", &value) &&
            number_of(value, 16, UINT32_MAX, &id) && take(r, "record", &value) &&
            number_of(value, 10, INT32_MAX, &record);
  t->kind = kind == UNDO ? PLIM_CHANGES_UNDO : PLIM_CHANGES_APPLY;
  t->is_lent = kind == LEND;
  t->is_ready = state;
  t->id = (uint32_t)id;
  t->record = (unsigned)record;
  return ok && record > 0;
}

static bool take_digest(reader *r) {
  uint8_t digest[PLIM_SHA256_BYTES], said[PLIM_SHA256_BYTES];
  plim_sha256(r->begin, (size_t)(r->at - r->begin), digest);
  word value;
  return take(r, "sha256", &value) && value.size == HEX_BYTES &&
         hex_bytes(value.at, PLIM_SHA256_BYTES, said) && memcmp(digest, said, sizeof digest) == 0 &&
         r->at == r->end;
}

static bool take_all(reader *r, plim_transaction *t) {
  bool ok = take_head(r, t);
  while (ok && r->at < r->end && *r->at == 'f') ok = take_step(r, t);
  return ok && t->steps.len && take_digest(r);
}

plim_err plim_journal_read(const char *text, size_t size, plim_transaction *out,
                           plim_error *error) {
  reader r = {text, text, text + size};
  *out = (plim_transaction){0};
  if (take_all(&r, out)) return PLIM_OK;
  plim_transaction_clear(out);
  plim_fail(error, PLIM_ERR_PARSE, "the journal is damaged");
  plim_error_at(error, (uint64_t)(r.at - text));
  return PLIM_ERR_PARSE;
}
