#include "comment_locks.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"

enum { PHRASE_WORDS = 4 };

#define CHANGE "change|touch|modify|edit|alter|increase|decrease|raise|lower|reduce|exceed|tune"
#define CHANGED "changed|touched|modified|edited|altered|increased|decreased|raised|lowered|tuned"

// Words one behind the other, each one of several; # is a number, * any word.
static const char *const phrases[][PHRASE_WORDS] = {
    {"must", "*"},
    {"do|should|shall", "not", CHANGE "|use|work"},
    {"don't|dont|never|shouldn't|cannot|can't", CHANGE "|use|work"},
    {"not|never|cannot|can't|shouldn't", "be", CHANGED},
    {"does", "not", "work"},
    {"doesn't", "work"},
    {"only", "support|supports|works|work"},
    {"keep|leave", "at|as|this|it|fixed|unchanged|constant|alone|#"},
    {"fixed|frozen|pinned", "by|to|at|for|in|because|as"},
    {"has|have|needs|need", "to", "be|stay|remain", "#|at|exactly|equal|the"},
    {"required|prescribed|dictated", "by"},
};

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
    bool is_any = n == 1 && (*choices == '*' || (*choices == '#' && isdigit((unsigned char)*word)));
    if (is_any || (n == size && strncasecmp(word, choices, n) == 0)) return true;
    choices += n;
  }
  return false;
}

static bool begins_phrase(const char *at, const char *const phrase[PHRASE_WORDS]) {
  for (int i = 0; i < PHRASE_WORDS && phrase[i]; i++) {
    size_t size;
    at = next_word(at, &size);
    if (!at || !is_one_of(at, size, phrase[i])) return false;
    at += size;
  }
  return true;
}

// Where, from `from` on, a word begins one of the phrases; NULL: nowhere.
static const char *find_phrase(const char *comment, const char *from) {
  for (const char *at = from; *at; at++) {
    if (!is_in_word(*at) || (at > comment && is_in_word(at[-1]))) continue;
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
      if (begins_phrase(at, phrases[i])) return at;
  }
  return NULL;
}

// ---- whose ban it is --------------------------------------------------------------------------------

static const char *last_part(const char *key) {
  const char *dot = strrchr(key, '.');
  return dot ? dot + 1 : key;
}

// "lora_r must ..." in a comment beside another key: it is that one's.
static bool is_of_another(const char *comment, const char *found, const char *key) {
  const char *end = found;
  while (end > comment && end[-1] == ' ') end--;
  const char *word = end;
  while (word > comment && (isalnum((unsigned char)word[-1]) || word[-1] == '_')) word--;
  size_t size = (size_t)(end - word);
  const char *own = last_part(key);
  return memchr(word, '_', size) && !(strlen(own) == size && memcmp(own, word, size) == 0);
}

const char *plim_lock_beside(const plim_setting *setting) {
  const char *comment = setting->comment;
  for (const char *at = comment, *found; (found = find_phrase(comment, at)); at = found + 1)
    if (!is_of_another(comment, found, setting->key)) return comment;
  return NULL;
}

// "micro_batch_size must be 1", somewhere in the file.
static const char *lock_elsewhere(const plim_settings *s, const char *key) {
  char phrase[PLIM_KEY_BYTES];
  snprintf(phrase, sizeof phrase, "%.200s must", last_part(key));
  for (size_t i = 0; i < s->at.len; i++) {
    const char *found = strstr(s->at.at[i].comment, phrase);
    if (found) return found;
  }
  return NULL;
}

const char *plim_lock_of(const plim_settings *s, const plim_setting *setting) {
  const char *ban = plim_lock_beside(setting);
  return ban ? ban : lock_elsewhere(s, setting->key);
}
