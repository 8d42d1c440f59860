// Which dialect a file is in: points for its keys.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "dialect.h"
#include "key_names.h"

enum {
  ENOUGH = 3, // points
  LEAD = 2,   // over the next: less is a guess
  SHOWN = 4   // keys in the reason
};

plim_dialect plim_dialect_named(const char *name) {
  int i = 0;
  while (i < PLIM_DIALECTS && strcasecmp(plim_dialect_table[i].name, name) != 0) i++;
  return (plim_dialect)i;
}

static bool has_key(const plim_settings *s, const char *pattern) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = 0; i < s->at.len; i++) {
    if (s->at.at[i].is_faint) continue;
    plim_key_name(s->at.at[i].key, name);
    if (fnmatch(pattern, name, FNM_NOESCAPE) == 0) return true;
  }
  return false;
}

static bool is_for(const plim_sign *sign, plim_format format) {
  return !sign->formats || sign->formats & 1u << format;
}

typedef struct {
  int points[PLIM_DIALECTS];
  bool has_sign[256];
} score;

static void count(const plim_settings *s, score *out) {
  *out = (score){0};
  for (size_t i = 0; i < plim_sign_count && i < sizeof out->has_sign; i++) {
    const plim_sign *sign = &plim_signs[i];
    out->has_sign[i] = is_for(sign, s->format) && has_key(s, sign->key);
    if (out->has_sign[i]) out->points[sign->dialect] += sign->points;
  }
}

// A dialect that builds on another also has that one's points, once it has some of its own.
static int total(const score *x, int dialect) {
  int points = x->points[dialect];
  plim_dialect base = plim_dialect_table[dialect].base;
  return points >= LEAD && base != PLIM_DIALECTS ? points + total(x, (int)base) : points;
}

static void say_why(const score *x, plim_dialect dialect, char *reason, size_t size) {
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

static bool has_home_key(const plim_settings *s) {
  for (const plim_key *key = plim_dialect_table[PLIM_DIALECT_HOME].keys; key->key; key++)
    for (size_t i = 0; i < s->at.len; i++)
      if (plim_key_is_of(key, &s->at.at[i], true)) return true;
  return false;
}

static void fall_back(const plim_settings *s, plim_recognition *out) {
  bool is_home = has_home_key(s);
  out->dialect = is_home ? PLIM_DIALECT_HOME : PLIM_DIALECTS;
  snprintf(out->reason, sizeof out->reason, "%s",
           is_home ? "no ecosystem's, but some of its keys have usual names"
                   : "no key of a training configuration was found in it");
}

void plim_dialect_recognise(const plim_settings *s, plim_recognition *out) {
  *out = (plim_recognition){.dialect = PLIM_DIALECTS, .rival = PLIM_DIALECTS};
  score x;
  count(s, &x);
  int best = 0, second = -1;
  for (int i = 1; i < PLIM_DIALECTS; i++)
    if (total(&x, i) > total(&x, best)) best = i;
  for (int i = 0; i < PLIM_DIALECTS; i++)
    if (i != best && (second < 0 || total(&x, i) > total(&x, second))) second = i;
  if (total(&x, best) < ENOUGH) {
    fall_back(s, out);
  } else if (total(&x, best) - total(&x, second) < LEAD && total(&x, second) >= ENOUGH) {
    out->rival = (plim_dialect)second;
    snprintf(out->reason, sizeof out->reason, "it could be %s's or %s's",
             plim_dialect_table[best].name, plim_dialect_table[second].name);
  } else {
    out->dialect = (plim_dialect)best;
    say_why(&x, out->dialect, out->reason, sizeof out->reason);
  }
}
