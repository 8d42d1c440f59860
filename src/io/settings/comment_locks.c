#include "comment_locks.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"

enum { PHRASE_WORDS = 4 };

#define CHANGE "change|touch|modify|edit|alter|increase|decrease|raise|lower|reduce|exceed|tune"
#define CHANGED "changed|touched|modified|edited|altered|increased|decreased|raised|lowered|tuned"

#define EXTENT                                                                                     \
  "#|a|an|the|at|in|no|not|on|off|one|exactly|equal|divisible|even|either|between|same|"           \
  "identical|kept|set|fixed|constant|unchanged|true|false|less|greater|smaller|"                   \
  "larger|lower|higher|below|above|consistent|compatible"

// A statement names its subject before the phrase, an order names it after the phrase; a whole phrase contains it.
typedef enum { STATEMENT, ORDER, WHOLE } role;

// Phrases of consecutive words; | separates alternatives, # matches a number.
static const struct {
  role role;
  const char *words[PHRASE_WORDS];
} phrases[] = {
    {STATEMENT, {"must", "be|stay|remain", EXTENT}},
    {STATEMENT, {"must", "match|equal|divide|fit|agree|not|never|always"}},
    {ORDER, {"do|should|shall|must", "not", CHANGE "|use"}},
    {ORDER, {"don't|dont|never|shouldn't|cannot|can't", CHANGE "|use"}},
    {STATEMENT, {"not|never|cannot|can't|shouldn't", "be", CHANGED}},
    {STATEMENT, {"do|does", "not", "work"}},
    {STATEMENT, {"doesn't|don't|never|cannot|can't", "work"}},
    {STATEMENT, {"only", "support|supports|works|work"}},
    {WHOLE, {"keep|leave", "at|as|this|it|fixed|unchanged|constant|alone|#"}},
    {STATEMENT, {"fixed|frozen|pinned", "by|to|at|for|in|because|as"}},
    {STATEMENT, {"has|have|needs|need", "to", "be|stay|remain", "#|at|exactly|equal|the"}},
    {STATEMENT, {"required|prescribed|dictated", "by"}},
};
enum { PHRASES = sizeof phrases / sizeof *phrases };

// ---- words ------------------------------------------------------------------------------------------

static bool is_in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '\''; }

// The next word of a sentence from `at` on; NULL: there is none, or a sentence ends before it.
static const char *next_word(const char *at, size_t *size) {
  while (*at && !is_in_word(*at)) {
    if (strchr(".;!?\n", *at)) return NULL;
    at++;
  }
  *size = 0;
  while (is_in_word(at[*size])) ++*size;
  return *size ? at : NULL;
}

static bool is_one_of(const char *word, size_t size, const char *choices) {
  for (; *choices; choices += *choices == '|') {
    size_t n = strcspn(choices, "|");
    bool is_number = n == 1 && *choices == '#' && isdigit((unsigned char)*word);
    if (is_number || (n == size && strncasecmp(word, choices, n) == 0)) return true;
    choices += n;
  }
  return false;
}

// The end of the phrase that begins at `at`; NULL if the text does not match.
static const char *end_of(const char *at, const char *const words[PHRASE_WORDS]) {
  for (int i = 0; i < PHRASE_WORDS && words[i]; i++) {
    size_t size;
    at = next_word(at, &size);
    if (!at || !is_one_of(at, size, words[i])) return NULL;
    at += size;
  }
  return at;
}

// ---- which setting it is about ----------------------------------------------------------------------

static const char *last_part(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

// Whether the word is part of the setting's name, such as "batch" of batch_size, or the whole name.
static bool is_in_key(const char *word, size_t size, const char *key) {
  if (size == strlen(key) && strncasecmp(word, key, size) == 0) return true;
  for (const char *at = key; *at; at += strspn(at, "_-")) {
    size_t n = strcspn(at, "_-");
    bool is_plural = size == n + 1 && tolower((unsigned char)word[n]) == 's';
    if ((size == n || is_plural) && n && strncasecmp(word, at, n) == 0) return true;
    at += n;
  }
  return false;
}

// The word before `at` in its sentence; NULL if there is none.
static const char *word_before(const char *comment, const char *at, size_t *size) {
  while (at > comment && !is_in_word(at[-1])) {
    if (strchr(".;!?\n,:", at[-1])) return NULL;
    at--;
  }
  const char *end = at;
  while (at > comment && is_in_word(at[-1])) at--;
  *size = (size_t)(end - at);
  return *size ? at : NULL;
}

#define PRONOUNS "this|it|that|these|value|values|number|setting|and"

// Whether the statement is about the setting: "batch size must be 8", "this should not be changed", but not "the
// dataset must be ..."
static bool is_own_statement(const char *comment, const char *found, const char *key) {
  size_t size;
  const char *word = word_before(comment, found, &size);
  while (word && is_one_of(word, size, "should|must|may|can|is|are|was|also|currently|always"))
    word = word_before(comment, word, &size);
  return !word || is_one_of(word, size, PRONOUNS) || is_in_key(word, size, key);
}

// Whether the order is about the setting: "do not change this", "never increase the batch size", but not "do not
// change the tokenizer"
static bool is_own_order(const char *end, const char *key) {
  size_t size;
  const char *word = next_word(end, &size);
  while (word && is_one_of(word, size, "the|a|an|any|our|your|current"))
    word = next_word(word + size, &size);
  return !word || is_one_of(word, size, "#|" PRONOUNS) || is_in_key(word, size, key) ||
         is_one_of(word, size,
                   "unless|without|or|if|when|where|while|above|below|beyond|over|because|since|"
                   "for|as|at|in|on|to|with|here|is|less|more|exactly|fixed|so|else|anything");
}

static bool is_own(role kind, const char *comment, const char *found, const char *end,
                   const char *key) {
  if (kind == WHOLE) return true;
  return kind == ORDER ? is_own_order(end, key) : is_own_statement(comment, found, key);
}

const char *plim_lock_beside(const plim_setting *setting) {
  const char *comment = setting->comment, *key = last_part(setting->key);
  for (const char *at = comment; *at; at++) {
    if (!is_in_word(*at) || (at > comment && is_in_word(at[-1]))) continue;
    for (int i = 0; i < PHRASES; i++) {
      const char *end = end_of(at, phrases[i].words);
      if (end && is_own(phrases[i].role, comment, at, end, key)) return comment;
    }
  }
  return NULL;
}

// Whether a statement follows the name directly: "micro_batch_size must be 1".
static bool is_stated(const char *behind) {
  size_t size;
  const char *word = next_word(behind, &size);
  for (int i = 0; i < PHRASES && word; i++)
    if (phrases[i].role == STATEMENT && end_of(word, phrases[i].words)) return true;
  return false;
}

// Searches the comments of all settings for such a statement about the key.
static const char *lock_elsewhere(const plim_settings *s, const char *key) {
  const char *own = last_part(key);
  size_t size = strlen(own);
  for (size_t i = 0; i < s->at.len; i++) {
    const char *comment = s->at.at[i].comment;
    for (const char *at = comment; (at = strstr(at, own)); at += size) {
      bool is_whole = (at == comment || !is_in_word(at[-1])) && !is_in_word(at[size]);
      if (is_whole && is_stated(at + size)) return at;
    }
  }
  return NULL;
}

const char *plim_lock_of(const plim_settings *s, const plim_setting *setting) {
  const char *ban = plim_lock_beside(setting);
  return ban ? ban : lock_elsewhere(s, setting->key);
}
