#include "versions.h"

#include <stdio.h>
#include <string.h>

#include "suggest.h"

const char *const plim_library_names[PLIM_LIBRARIES + 1] = {
    [PLIM_LIBRARY_TRANSFORMERS] = "transformers",
    [PLIM_LIBRARY_TORCH] = "torch",
    [PLIM_LIBRARY_PEFT] = "peft",
    [PLIM_LIBRARY_TRL] = "trl",
    [PLIM_LIBRARY_ACCELERATE] = "accelerate",
};

// Releases that are known, oldest first: a major version and its first and last minor version. From PyPI, November 2026.
static const struct {
  plim_library library;
  uint16_t major, first, last;
} known[] = {
    {PLIM_LIBRARY_TRANSFORMERS, 4, 46, 57}, {PLIM_LIBRARY_TRANSFORMERS, 5, 0, 22},
    {PLIM_LIBRARY_TORCH, 2, 4, 15},         {PLIM_LIBRARY_PEFT, 0, 13, 21},
    {PLIM_LIBRARY_TRL, 0, 11, 29},          {PLIM_LIBRARY_TRL, 1, 0, 16},
    {PLIM_LIBRARY_ACCELERATE, 1, 0, 15},
};

enum { KNOWN = sizeof known / sizeof *known };

// ---- releases -----------------------------------------------------------------------------------

uint16_t plim_versions_get(const plim_versions *v, plim_library library) {
  const uint16_t all[PLIM_LIBRARIES] = {v->transformers, v->torch, v->peft, v->trl, v->accelerate};
  return all[library];
}

void plim_versions_set(plim_versions *v, plim_library library, uint16_t release) {
  uint16_t *const all[PLIM_LIBRARIES] = {&v->transformers, &v->torch, &v->peft, &v->trl,
                                         &v->accelerate};
  *all[library] = release;
}

static const uint16_t measured[PLIM_LIBRARIES] = {
    [PLIM_LIBRARY_TRANSFORMERS] = PLIM_MEASURED_TRANSFORMERS,
    [PLIM_LIBRARY_TORCH] = PLIM_MEASURED_TORCH,
    [PLIM_LIBRARY_PEFT] = PLIM_MEASURED_PEFT,
    [PLIM_LIBRARY_TRL] = PLIM_MEASURED_TRL,
    [PLIM_LIBRARY_ACCELERATE] = PLIM_MEASURED_ACCELERATE,
};

uint16_t plim_versions_used(const plim_versions *v, plim_library library) {
  uint16_t release = plim_versions_get(v, library);
  return release ? release : measured[library];
}

plim_release_name plim_release_words(uint16_t release) {
  plim_release_name name;
  snprintf(name.text, sizeof name.text, "%u.%u", release / 1000u, release % 1000u);
  return name;
}

plim_versions_name plim_versions_words(const plim_versions *v) {
  plim_versions_name name = {""};
  size_t used = 0;
  for (int i = 0; i < PLIM_LIBRARIES; i++) {
    uint16_t release = plim_versions_used(v, (plim_library)i);
    if (release == measured[i]) continue;
    used += (size_t)snprintf(name.text + used, sizeof name.text - used, "%s%s=%s", used ? "," : "",
                             plim_library_names[i], plim_release_words(release).text);
  }
  return name;
}

// The known release that is closest: the newest that is not newer, else the oldest.
static uint16_t nearest(plim_library library, uint16_t release) {
  uint16_t best = 0;
  for (size_t i = 0; i < KNOWN; i++) {
    uint16_t first = PLIM_RELEASE(known[i].major, known[i].first);
    uint16_t last = PLIM_RELEASE(known[i].major, known[i].last);
    if (known[i].library != library) continue;
    if (!best || release >= first) best = release < first ? first : release < last ? release : last;
  }
  return best;
}

// ---- requirements -------------------------------------------------------------------------------

typedef struct {
  char op; // '=', '!', '<', 'l' (<=), '>', 'g' (>=), '~' (~=), '^'
  unsigned parts, number[3];
  bool has_star;
} clause;

static const char *skip_blanks(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t')) at++;
  return at;
}

static const char *read_operator(const char *at, const char *end, char *op) {
  static const struct {
    const char *text;
    char op;
  } all[] = {{"===", '='}, {"==", '='}, {"!=", '!'}, {"<=", 'l'}, {">=", 'g'}, {"~=", '~'},
             {"<", '<'},   {">", '>'},  {"^", '^'},  {"~", '~'},  {"=", '='}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    size_t length = strlen(all[i].text);
    if ((size_t)(end - at) < length || memcmp(at, all[i].text, length) != 0) continue;
    *op = all[i].op;
    return at + length;
  }
  *op = '=';
  return at;
}

static bool read_clause(const char *at, const char *end, clause *c) {
  *c = (clause){0};
  at = skip_blanks(read_operator(skip_blanks(at, end), end, &c->op), end);
  if (at < end && *at == 'v') at++;
  while (at < end && c->parts < 3) {
    if (*at == '*') {
      c->has_star = true;
      break;
    }
    if (*at < '0' || *at > '9') break;
    unsigned value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
      if (value < 1000) value = value * 10 + (unsigned)(*at - '0');
    c->number[c->parts++] = value > 999 ? 999 : value;
    if (at == end || *at != '.') break;
    at++;
  }
  return c->parts > 0 && c->number[0] <= 60;
}

static bool allows(const clause *c, uint16_t release) {
  uint16_t at = PLIM_RELEASE(c->number[0], c->number[1]);
  bool is_same_major = release / 1000u == c->number[0];
  switch (c->op) {
  case '=': return c->parts == 1 ? is_same_major : release == at;
  case '!': return !(c->has_star && (c->parts == 1 ? is_same_major : release == at));
  case '<': return c->number[2] ? release <= at : release < at;
  case 'l': return release <= at;
  case '~': return c->parts > 2 ? release == at : is_same_major && release >= at;
  case '^': return c->number[0] ? is_same_major && release >= at : release == at;
  default: return release >= at;
  }
}

enum { MOST_CLAUSES = 8 };

static size_t read_clauses(const char *text, size_t length, clause *out) {
  const char *at = text, *end = text + length;
  size_t count = 0;
  while (at < end && count < MOST_CLAUSES) {
    const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
    if (skip_blanks(at, stop) == stop || !read_clause(at, stop, &out[count])) return 0;
    count++;
    at = comma ? comma + 1 : end;
  }
  return count;
}

// The oldest and the newest known release that all clauses allow; 0: none.
static void find_allowed(plim_library library, const clause *clauses, size_t count,
                         uint16_t out[2]) {
  out[0] = out[1] = 0;
  for (size_t i = 0; i < KNOWN; i++)
    for (unsigned minor = known[i].first; minor <= known[i].last; minor++) {
      uint16_t release = PLIM_RELEASE(known[i].major, minor);
      bool fits = known[i].library == library;
      for (size_t k = 0; fits && k < count; k++) fits = allows(&clauses[k], release);
      if (!fits) continue;
      if (!out[0]) out[0] = release;
      out[1] = release;
    }
}

uint16_t plim_release_allowed(plim_library library, const char *text, size_t length,
                              bool *is_known) {
  clause clauses[MOST_CLAUSES];
  uint16_t found[2];
  size_t count = read_clauses(text, length, clauses);
  *is_known = false;
  if (!count) return 0;
  find_allowed(library, clauses, count, found);
  *is_known = found[1] != 0;
  if (found[1]) return found[1];
  return nearest(library, PLIM_RELEASE(clauses[0].number[0], clauses[0].number[1]));
}

uint16_t plim_release_oldest(plim_library library, const char *text, size_t length) {
  clause clauses[MOST_CLAUSES];
  uint16_t found[2] = {0};
  size_t count = read_clauses(text, length, clauses);
  if (count) find_allowed(library, clauses, count, found);
  return found[0];
}

// ---- the option ---------------------------------------------------------------------------------

static plim_err refuse_name(const char *name, plim_error *error) {
  const char *close = plim_suggest(name, plim_library_names, PLIM_LIBRARIES);
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "--versions: no version of \"%.64s\" is known", name);
  if (close) plim_error_hint(error, "did you mean %s?", close);
  else plim_error_hint(error, "known: transformers, torch, peft, trl, accelerate");
  return err;
}

static plim_err parse_one(const char *text, size_t length, plim_versions *out, plim_error *error) {
  char item[64];
  snprintf(item, sizeof item, "%.*s", (int)(length < 63 ? length : 63), text);
  char *equals = strchr(item, '=');
  if (!equals) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "--versions: \"%s\" has no version", item);
    plim_error_hint(error, "--versions transformers=4.57,torch=2.9");
    return err;
  }
  *equals++ = '\0';
  while (*equals == '=') equals++;
  int library = 0;
  while (library < PLIM_LIBRARIES && strcmp(item, plim_library_names[library]) != 0) library++;
  if (library == PLIM_LIBRARIES) return refuse_name(item, error);
  bool is_known;
  uint16_t release = plim_release_allowed((plim_library)library, equals, strlen(equals), &is_known);
  if (release && is_known) {
    plim_versions_set(out, (plim_library)library, release);
    return PLIM_OK;
  }
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%s %.32s is not supported", item,
                           *equals ? equals : "without a version");
  if (release)
    plim_error_hint(error, "the nearest supported version: --versions %s=%s", item,
                    plim_release_words(release).text);
  else plim_error_hint(error, "--versions transformers=4.57,torch=2.9");
  return err;
}

plim_err plim_versions_parse(const char *text, plim_versions *out, plim_error *error) {
  plim_err err = PLIM_OK;
  for (const char *at = text; !err; at++) {
    size_t length = strcspn(at, ",");
    err = parse_one(at, length, out, error);
    at += length;
    if (!*at) break;
  }
  return err;
}
