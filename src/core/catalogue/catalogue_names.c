// Models by name: what users and the hub call them.
#include <string.h>

#include "catalogue_impl.h"
#include "suggest.h"

enum { KEY_BYTES = 96, MAX_WORDS = 16 };

static char small(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool plim_catalogue_is_public(const plim_catalogue_model *model) {
  return strchr(model->id, '/') != NULL;
}

// ---- a name, taken apart ----------------------------------------------------------------------------

// "Qwen/Qwen2.5-7B-Instruct": the owner "qwen", the words "qwen2.5", "7b", "instruct". The text is small
// letters with each word ended by a zero.
typedef struct {
  char text[KEY_BYTES];
  const char *owner; // NULL: not said
  const char *words[MAX_WORDS];
  size_t count;
} model_name;

static bool is_between(char c) { return strchr("-_ :/", c) != NULL; }

static bool read_name(model_name *n, const char *text) {
  *n = (model_name){.count = 0};
  size_t length = strlen(text);
  if (length >= KEY_BYTES) return false;
  const char *slash = strchr(text, '/');
  size_t first = slash ? (size_t)(slash - text) + 1 : 0;
  for (size_t i = 0; i < length; i++) n->text[i] = small(text[i]);
  if (slash) n->owner = n->text, n->text[first - 1] = '\0';
  for (size_t i = first; i < length; i++) {
    bool starts = !is_between(n->text[i]) && (i == first || !n->text[i - 1]);
    if (is_between(n->text[i])) n->text[i] = '\0';
    if (!starts) continue;
    if (n->count == MAX_WORDS) return false;
    n->words[n->count++] = n->text + i;
  }
  return n->count > 0;
}

// Words that say how it was trained, not what it is; "meta" is in some ids of Llama only, "deduped" in those of Pythia.
static bool is_left_out(const char *word) {
  static const char *const words[] = {"instruct", "it",   "chat",    "thinking",
                                      "hf",       "meta", "deduped", "latest"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(word, words[i]) == 0) return true;
  return false;
}

// Without those. "base" goes only from inside: at the end, it is a size of some ("bert-base").
static void shorten(model_name *n) {
  size_t kept = 0;
  for (size_t i = 0; i < n->count; i++) {
    bool is_inner_base = i > 0 && i + 1 < n->count && strcmp(n->words[i], "base") == 0;
    if (!is_left_out(n->words[i]) && !is_inner_base) n->words[kept++] = n->words[i];
  }
  n->count = kept;
}

// ---- comparing --------------------------------------------------------------------------------------

// Whether `asked` is what `own` begins with, whatever stands between words; *rest is the first word of
// `own` behind it, *is_whole whether that begins there.
static bool begins(const model_name *own, const model_name *asked, size_t *rest, bool *is_whole) {
  size_t word = 0, at = 0;
  for (size_t i = 0; i < asked->count; i++)
    for (const char *c = asked->words[i]; *c; c++) {
      if (word < own->count && !own->words[word][at]) word++, at = 0;
      if (word == own->count || own->words[word][at] != *c) return false;
      at++;
    }
  *is_whole = !asked->count || !own->words[word][at];
  *rest = word + 1;
  return asked->count > 0;
}

// "7b", "8x7b", "1.1b", "v0.2", "2407".
static bool is_size(const char *word) { return is_digit(word[word[0] == 'v']); }

// How surely a name means a model: the very name; its base model's; without its size; the beginning.
typedef enum { NOT_MEANT, BEGINS, BUT_FOR_SIZE, SAME_SHAPE, THE_NAME } likeness;

static likeness compare(const model_name *own, const model_name *asked, likeness whole) {
  size_t rest;
  bool is_whole;
  if (!begins(own, asked, &rest, &is_whole)) return NOT_MEANT;
  if (!is_whole) return BEGINS;
  if (rest == own->count) return whole;
  for (; rest < own->count; rest++)
    if (!is_size(own->words[rest])) return BEGINS;
  return BUT_FOR_SIZE;
}

static likeness most(likeness a, likeness b) { return a > b ? a : b; }

// Qwen3 calls the one without chat "Base".
static void cut_base(model_name *n) {
  if (n->count > 1 && strcmp(n->words[n->count - 1], "base") == 0) n->count--;
}

static likeness likeness_to(const char *name, const model_name *asked,
                            const model_name *shortened) {
  model_name own;
  if (!read_name(&own, name)) return NOT_MEANT;
  if (asked->owner && own.owner && strcmp(asked->owner, own.owner) != 0) return NOT_MEANT;
  likeness l = compare(&own, asked, THE_NAME);
  shorten(&own);
  l = most(l, compare(&own, shortened, SAME_SHAPE));
  model_name base = *shortened;
  cut_base(&base);
  likeness without_base = compare(&own, &base, SAME_SHAPE);
  return without_base == SAME_SHAPE ? most(l, SAME_SHAPE) : l;
}

static likeness likeness_of(const plim_catalogue_model *model, const char *name,
                            const model_name *asked, const model_name *shortened) {
  if (!plim_catalogue_is_public(model)) return strcmp(model->id, name) == 0 ? THE_NAME : NOT_MEANT;
  if (!asked->owner && strchr(model->name, '/')) return NOT_MEANT;
  likeness l = likeness_to(model->id, asked, shortened);
  return asked->owner ? l : most(l, likeness_to(model->name, asked, shortened));
}

static const plim_catalogue_model *row_named(const char *name) {
  for (size_t i = 0; i < plim_catalogue_count; i++)
    if (strcmp(plim_catalogue[i].name, name) == 0) return &plim_catalogue[i];
  return NULL;
}

// The row of a published model under another name; NULL: none.
static const plim_catalogue_model *row_of_alias(const model_name *asked,
                                                const model_name *shortened) {
  for (size_t i = 0; i < plim_catalogue_alias_count; i++)
    if (likeness_to(plim_catalogue_aliases[i].id, asked, shortened) >= SAME_SHAPE)
      return row_named(plim_catalogue_aliases[i].name);
  return NULL;
}

static size_t search(const char *name, likeness least,
                     const plim_catalogue_model *out[PLIM_MAX_MODELS]) {
  model_name asked, shortened;
  if (!read_name(&asked, name) || !read_name(&shortened, name)) return 0;
  shorten(&shortened);
  size_t count = 0;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    likeness l = likeness_of(&plim_catalogue[i], name, &asked, &shortened);
    if (l < least || l == NOT_MEANT) continue;
    if (l > least) count = 0, least = l;
    out[count++] = &plim_catalogue[i];
  }
  bool is_row = count && least >= SAME_SHAPE;
  const plim_catalogue_model *other = is_row ? NULL : row_of_alias(&asked, &shortened);
  if (other) out[0] = other;
  return other ? 1 : count;
}

size_t plim_catalogue_candidates(const char *name,
                                 const plim_catalogue_model *out[PLIM_MAX_MODELS]) {
  return search(name, BEGINS, out);
}

const plim_catalogue_model *plim_catalogue_named(const char *name) {
  const plim_catalogue_model *found[PLIM_MAX_MODELS];
  return search(name, BUT_FOR_SIZE, found) == 1 ? found[0] : NULL;
}

const plim_catalogue_model *plim_catalogue_same(const char *name) {
  const plim_catalogue_model *found[PLIM_MAX_MODELS];
  return search(name, SAME_SHAPE, found) == 1 ? found[0] : NULL;
}

// ---- bases of fine-tunes ----------------------------------------------------------------------------

static size_t letters_of(const model_name *n) {
  size_t letters = 0;
  for (size_t i = 0; i < n->count; i++) letters += strlen(n->words[i]);
  return letters;
}

// Whether the words of `own` follow each other in `asked`, whatever stands between them ("llama3", "llama-3").
static bool holds_whole(const model_name *asked, const model_name *own) {
  size_t next;
  bool is_whole;
  for (size_t first = 0; first < asked->count; first++) {
    model_name rest = {.count = asked->count - first};
    memcpy(rest.words, asked->words + first, rest.count * sizeof *rest.words);
    if (begins(&rest, own, &next, &is_whole) && is_whole) return true;
  }
  return false;
}

// Whether `asked` has all words of `own`, with others among them: "Llama-3.1-Tales-8B".
static bool holds_scattered(const model_name *asked, const model_name *own) {
  enum { FEWEST = 3 }; // two words alone, a family and a size, are of many models
  size_t found = 0;
  for (size_t i = 0; i < asked->count && found < own->count; i++)
    found += strcmp(asked->words[i], own->words[found]) == 0;
  return own->count >= FEWEST && found == own->count;
}

const plim_catalogue_model *plim_catalogue_within(const char *name) {
  static bool (*const holds[])(const model_name *, const model_name *) = {holds_whole,
                                                                          holds_scattered};
  model_name asked, own;
  const plim_catalogue_model *found = NULL;
  size_t most = 0;
  for (size_t i = 0; i < plim_catalogue_fine_tune_count; i++)
    if (strcmp(name, plim_catalogue_fine_tunes[i].id) == 0)
      return plim_catalogue_named(plim_catalogue_fine_tunes[i].name);
  if (!read_name(&asked, name)) return NULL;
  shorten(&asked);
  for (size_t way = 0; !found && way < sizeof holds / sizeof *holds; way++)
    for (size_t i = 0; i < plim_catalogue_count; i++) {
      const plim_catalogue_model *model = &plim_catalogue[i];
      if (!plim_catalogue_is_public(model) || strchr(model->name, '/')) continue;
      if (!read_name(&own, model->name) || letters_of(&own) <= most) continue;
      if (holds[way](&asked, &own)) found = model, most = letters_of(&own);
    }
  return found;
}

static const char *without_owner(const char *id) {
  const char *slash = strchr(id, '/');
  return slash ? slash + 1 : id;
}

const char *plim_catalogue_suggest(const char *name) {
  const char *names[2 * PLIM_MAX_MODELS];
  size_t count = 0;
  bool has_owner = strchr(name, '/') != NULL;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    if (!plim_catalogue_is_public(&plim_catalogue[i])) continue;
    if (!has_owner) names[count++] = plim_catalogue[i].name;
    names[count++] = has_owner ? plim_catalogue[i].id : without_owner(plim_catalogue[i].id);
  }
  return plim_suggest(name, names, count);
}
