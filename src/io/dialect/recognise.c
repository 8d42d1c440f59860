// Recognises the dialect of a file by the points of its keys.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dialect.h"
#include "key_index.h"

enum {
  ENOUGH = 3, // points
  LEAD = 2,   // points ahead of the second; less would be a guess
  SHOWN = 4   // keys in the reason
};

plim_dialect plim_dialect_named(const char *name) {
  int i = 0;
  while (i < PLIM_DIALECTS && strcasecmp(plim_dialect_table[i].name, name) != 0) i++;
  return (plim_dialect)i;
}

static bool has_key(const plim_settings *s, const plim_key_index *names, const char *pattern) {
  plim_key_search search = plim_key_index_search(names, pattern, false);
  for (size_t i; (i = plim_key_search_next(&search)) != SIZE_MAX;)
    if (!s->at.at[i].is_faint) return true;
  return false;
}

static bool is_for(const plim_sign *sign, plim_format format) {
  return !sign->formats || sign->formats & 1u << format;
}

typedef struct {
  int points[PLIM_DIALECTS];
  bool has_sign[256];
} score;

static void count(const plim_settings *s, const plim_key_index *names, score *out) {
  *out = (score){0};
  for (size_t i = 0; i < plim_sign_count && i < sizeof out->has_sign; i++) {
    const plim_sign *sign = &plim_signs[i];
    out->has_sign[i] = is_for(sign, s->format) && has_key(s, names, sign->key);
    if (out->has_sign[i]) out->points[sign->dialect] += sign->points;
  }
}

static int with_bases(const score *x, plim_dialect dialect) {
  int points = 0;
  for (; dialect != PLIM_DIALECTS; dialect = plim_dialect_table[dialect].base)
    points += x->points[dialect];
  return points;
}

// A dialect that is based on another one also gets its points, if it has some of its own.
static int total(const score *x, int dialect) {
  int points = x->points[dialect];
  return points >= LEAD ? with_bases(x, (plim_dialect)dialect) : points;
}

static void explain_recognition(const score *x, plim_dialect dialect, char *reason, size_t size) {
  size_t used = 0;
  int shown = 0;
  *reason = 0;
  for (size_t i = 0; i < plim_sign_count && shown < SHOWN; i++) {
    if (!x->has_sign[i] || plim_signs[i].dialect != dialect) continue;
    int n = snprintf(reason + used, size - used, "%s%s", shown++ ? ", " : "", plim_signs[i].key);
    used += n > 0 && (size_t)n < size - used ? (size_t)n : 0;
  }
  snprintf(reason + used, size - used, " %s %s's", shown == 1 ? "is" : "are",
           plim_dialect_table[dialect].name);
}

static bool has_row(const plim_key_index *names, const plim_key *key) {
  plim_key_search search = plim_key_index_search(names, key->key, true);
  for (size_t i; (i = plim_key_search_next(&search)) != SIZE_MAX;)
    if (!plim_key_is_of_evaluation(names->names[i])) return true;
  for (size_t i = 0; key->how == PLIM_AS_LIST && i < names->count; i++)
    if (plim_key_is_item(names->names[i], key->key, true) &&
        !plim_key_is_of_evaluation(names->names[i]))
      return true;
  return false;
}

static bool has_home_key(const plim_key_index *names) {
  for (const plim_key *key = plim_dialect_table[PLIM_DIALECT_HOME].keys; key->key; key++)
    if (has_row(names, key)) return true;
  return false;
}

static void fall_back(const plim_key_index *names, plim_recognition *out) {
  bool is_home = has_home_key(names);
  out->dialect = is_home ? PLIM_DIALECT_HOME : PLIM_DIALECTS;
  snprintf(out->reason, sizeof out->reason, "%s",
           is_home ? "it belongs to no known framework, but some of its keys have common names"
                   : "it contains no key of a training configuration");
}

static void recognise(const plim_settings *s, const plim_key_index *names, plim_recognition *out) {
  score x;
  count(s, names, &x);
  int best = 0, second = -1;
  for (int i = 1; i < PLIM_DIALECTS; i++)
    if (total(&x, i) > total(&x, best)) best = i;
  for (int i = 0; i < PLIM_DIALECTS; i++)
    if (i != best && (second < 0 || total(&x, i) > total(&x, second))) second = i;
  if (total(&x, best) < ENOUGH) {
    fall_back(names, out);
  } else if (total(&x, best) - total(&x, second) < LEAD && total(&x, second) >= ENOUGH) {
    out->rival = (plim_dialect)second;
    snprintf(out->reason, sizeof out->reason, "it could be a configuration of %s or of %s",
             plim_dialect_table[best].name, plim_dialect_table[second].name);
  } else {
    out->dialect = (plim_dialect)best;
    explain_recognition(&x, out->dialect, out->reason, sizeof out->reason);
  }
}

void plim_dialect_recognise(plim_settings *s, plim_recognition *out) {
  plim_key_index names;
  *out = (plim_recognition){.dialect = PLIM_DIALECTS, .rival = PLIM_DIALECTS};
  if (plim_key_index_make(s, &names)) recognise(s, &names, out);
  else s->has_failed = true;
  plim_key_index_free(&names);
}
