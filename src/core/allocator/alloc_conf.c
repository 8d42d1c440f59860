#include "alloc_conf.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suggest.h"

#define DEFAULT_LARGE_SEGMENT (20 * PLIM_MIB) // PyTorch kLargeBuffer
#define MIN_LARGE_SEGMENT_MB 10               // must be larger: PyTorch kMinLargeAlloc

plim_alloc_conf plim_alloc_conf_default(void) {
  return (plim_alloc_conf){
      .large_segment_bytes = DEFAULT_LARGE_SEGMENT,
      .max_split_bytes = UINT64_MAX,
      .max_non_split_rounding_bytes = DEFAULT_LARGE_SEGMENT,
      .memory_fraction = 1,
  };
}

// ---- tokens -----------------------------------------------------------------------------------

// PyTorch splits the string at , : [ ] and drops white space; a token is one of these characters or a word.
typedef struct {
  const char *text;
  size_t at, end; // the current token is text[at..end)
  plim_alloc_conf conf;
  bool rounding_given;
  bool is_lenient; // skip what does not parse
  bool left_out;   // something was skipped
  plim_error *error;
} parser;

static bool is_cut(char c) { return c == ',' || c == ':' || c == '[' || c == ']'; }

static void next(parser *p) {
  size_t i = p->end;
  while (isspace((unsigned char)p->text[i])) i++;
  p->at = i;
  if (p->text[i] && is_cut(p->text[i])) {
    p->end = i + 1;
    return;
  }
  while (p->text[i] && !is_cut(p->text[i]) && !isspace((unsigned char)p->text[i])) i++;
  p->end = i;
}

static bool at_end(const parser *p) { return !p->text[p->at]; }

static bool token_is(const parser *p, const char *word) {
  size_t length = p->end - p->at;
  return strlen(word) == length && memcmp(p->text + p->at, word, length) == 0;
}

static void token_copy(const parser *p, char *word, size_t size) {
  size_t length = p->end - p->at;
  if (length >= size) length = size - 1;
  memcpy(word, p->text + p->at, length);
  word[length] = '\0';
}

static plim_err bad(parser *p, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static plim_err bad(parser *p, const char *hint, const char *format, ...) {
  char message[sizeof p->error->message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  plim_fail(p->error, PLIM_ERR_ARGUMENT, "%s", message);
  plim_error_at(p->error, p->at);
  if (hint) plim_error_hint(p->error, "%s", hint);
  return PLIM_ERR_ARGUMENT;
}

static plim_err expect(parser *p, const char *mark, const char *hint) {
  if (token_is(p, mark)) {
    next(p);
    return PLIM_OK;
  }
  char found[48];
  token_copy(p, found, sizeof found);
  if (at_end(p)) return bad(p, hint, "the setting ends here, but '%s' is expected", mark);
  return bad(p, hint, "found '%s' where '%s' is expected", found, mark);
}

static plim_err read_number(parser *p, const char *key, const char *hint, double *value) {
  char word[48], *end;
  token_copy(p, word, sizeof word);
  *value = strtod(word, &end);
  if (!*word || *end || !isdigit((unsigned char)*word) || word[1] == 'x' || word[1] == 'X')
    return bad(p, hint, "%s is '%s', not a number", key, word);
  return PLIM_OK;
}

static plim_err read_mb(parser *p, const char *key, const char *hint, uint64_t *mb) {
  double value = 0;
  plim_err err = read_number(p, key, hint, &value);
  if (err) return err;
  if (value > 1e9 || value != (double)(uint64_t)value) {
    char word[48];
    token_copy(p, word, sizeof word);
    return bad(p, hint, "%s is %s, but it must be a whole number of MiB", key, word);
  }
  *mb = (uint64_t)value;
  return PLIM_OK;
}

// ---- values -----------------------------------------------------------------------------------

static plim_err read_flag(parser *p, const char *key, bool *value) {
  char word[48];
  token_copy(p, word, sizeof word);
  if (!token_is(p, "True") && !token_is(p, "False"))
    return bad(p, "PyTorch accepts only True or False", "%s is '%s'", key, word);
  *value = token_is(p, "True");
  return PLIM_OK;
}

static plim_err read_expandable(parser *p) {
  return read_flag(p, "expandable_segments", &p->conf.expandable_segments);
}

static plim_err read_throw(parser *p) {
  return read_flag(p, "throw_on_cudamalloc_oom", &p->conf.throw_on_cudamalloc_oom);
}

static plim_err read_large_segment(parser *p) {
  uint64_t mb = 0;
  plim_err err = read_mb(p, "large_segment_size_mb", "large_segment_size_mb:20", &mb);
  if (err) return err;
  if (mb <= MIN_LARGE_SEGMENT_MB)
    return bad(p, "large_segment_size_mb:20",
               "large_segment_size_mb is %llu, it must be more than %d", (unsigned long long)mb,
               MIN_LARGE_SEGMENT_MB);
  p->conf.large_segment_bytes = mb * PLIM_MIB;
  return PLIM_OK;
}

static plim_err check_not_below_segment(parser *p, const char *key, const char *hint, uint64_t mb) {
  uint64_t smallest = p->conf.large_segment_bytes / PLIM_MIB;
  if (mb >= smallest) return PLIM_OK;
  return bad(p, hint, "%s is %llu, the smallest allowed is %llu", key, (unsigned long long)mb,
             (unsigned long long)smallest);
}

// Whether the string turns expandable segments on, before or after the present place.
static bool has_expandable(const parser *p) {
  parser look = {.text = p->text};
  for (next(&look); !at_end(&look); next(&look)) {
    if (!token_is(&look, "expandable_segments")) continue;
    next(&look);
    next(&look);
    if (token_is(&look, "True")) return true;
  }
  return false;
}

static plim_err read_max_split(parser *p) {
  const char *hint = has_expandable(p) ? "remove max_split_size_mb" : "max_split_size_mb:128";
  uint64_t mb = 0;
  plim_err err = read_mb(p, "max_split_size_mb", hint, &mb);
  if (!err) err = check_not_below_segment(p, "max_split_size_mb", hint, mb);
  if (!err) p->conf.max_split_bytes = mb * PLIM_MIB;
  return err;
}

static plim_err read_non_split_rounding(parser *p) {
  static const char hint[] = "max_non_split_rounding_mb:64";
  uint64_t mb = 0;
  plim_err err = read_mb(p, "max_non_split_rounding_mb", hint, &mb);
  if (!err) err = check_not_below_segment(p, "max_non_split_rounding_mb", hint, mb);
  if (err) return err;
  p->conf.max_non_split_rounding_bytes = mb * PLIM_MIB;
  p->rounding_given = true;
  return PLIM_OK;
}

static plim_err read_gc(parser *p) {
  static const char hint[] = "garbage_collection_threshold:0.8";
  double value = 0;
  plim_err err = read_number(p, "garbage_collection_threshold", hint, &value);
  if (err) return err;
  if (!(value > 0 && value < 1))
    return bad(p, hint, "garbage_collection_threshold is %g, it must be between 0 and 1", value);
  p->conf.gc_threshold = value;
  return PLIM_OK;
}

static plim_err read_fraction(parser *p) {
  static const char hint[] = "per_process_memory_fraction:0.9";
  double value = 0;
  plim_err err = read_number(p, "per_process_memory_fraction", hint, &value);
  if (err) return err;
  if (value > 1)
    return bad(p, hint, "per_process_memory_fraction is %g, the largest allowed is 1", value);
  p->conf.memory_fraction = value;
  return PLIM_OK;
}

static plim_err read_backend(parser *p) {
  if (token_is(p, "native")) return PLIM_OK;
  return bad(p, "backend:native", "only PyTorch's own allocator (backend:native) can be simulated");
}

static unsigned log2_floor(uint64_t value) { return 63u - (unsigned)__builtin_clzll(value); }

static plim_err read_division(parser *p, uint32_t *value) {
  static const char hint[] = "roundup_power2_divisions:8";
  uint64_t divisions = 0;
  plim_err err = read_mb(p, "roundup_power2_divisions", hint, &divisions);
  if (err) return err;
  if (divisions && (divisions & (divisions - 1)))
    return bad(p, hint, "roundup_power2_divisions is %llu, it must be a power of two",
               (unsigned long long)divisions);
  *value = (uint32_t)divisions;
  return PLIM_OK;
}

static void fill_divisions(parser *p, unsigned from, unsigned to, uint32_t value) {
  for (unsigned i = from; i < to; i++) p->conf.divisions[i] = value;
}

// One "MB:divisions" entry of the list form. The first entry also applies to everything below it, ">" to everything
// above the last; boundaries that are skipped stay off (recorded: truth roundup-skip).
static plim_err read_division_entry(parser *p, bool first, unsigned *last) {
  static const char hint[] = "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]";
  bool is_rest = token_is(p, ">");
  unsigned index = 0;
  if (!is_rest) {
    uint64_t mb = 0;
    plim_err err = read_mb(p, "a boundary of roundup_power2_divisions", hint, &mb);
    if (err) return err;
    if (!mb || (mb & (mb - 1)) || log2_floor(mb) >= PLIM_DIVISION_SLOTS)
      return bad(p, hint, "the boundary %llu is not a power of two from 1 to 32768 (MiB)",
                 (unsigned long long)mb);
    index = log2_floor(mb);
  }
  next(p);
  plim_err err = expect(p, ":", hint);
  uint32_t value = 0;
  if (!err) err = read_division(p, &value);
  if (err) return err;
  if (is_rest) fill_divisions(p, *last + 1, PLIM_DIVISION_SLOTS, value);
  else fill_divisions(p, first ? 0 : index, index + 1, value);
  if (!is_rest) *last = index;
  return PLIM_OK;
}

static plim_err read_divisions(parser *p) {
  if (!token_is(p, "[")) {
    uint32_t value = 0;
    plim_err err = read_division(p, &value);
    if (!err) fill_divisions(p, 0, PLIM_DIVISION_SLOTS, value);
    return err;
  }
  unsigned last = 0;
  for (bool first = true;; first = false) {
    next(p);
    plim_err err = read_division_entry(p, first, &last);
    if (err) return err;
    next(p);
    if (token_is(p, "]")) return PLIM_OK;
    if (!token_is(p, ",")) return expect(p, "]", "roundup_power2_divisions:[256:1,512:2,>:4]");
  }
}

// Settings that PyTorch knows but that do not affect device memory.
static plim_err skip_value(parser *p) {
  if (!token_is(p, "[")) return PLIM_OK;
  while (!at_end(p) && !token_is(p, "]")) next(p);
  return at_end(p) ? expect(p, "]", "a list is written [64:4,256:8,>:16]") : PLIM_OK;
}

// ---- keys -------------------------------------------------------------------------------------

typedef struct {
  const char *name;
  plim_err (*read)(parser *p);
} key;

static const key keys[] = {
    {"large_segment_size_mb", read_large_segment}, // must be first: others are checked against it
    {"expandable_segments", read_expandable},
    {"max_split_size_mb", read_max_split},
    {"max_non_split_rounding_mb", read_non_split_rounding},
    {"garbage_collection_threshold", read_gc},
    {"roundup_power2_divisions", read_divisions},
    {"per_process_memory_fraction", read_fraction},
    {"throw_on_cudamalloc_oom", read_throw},
    {"backend", read_backend},
    {"expandable_segments_reserve", skip_value},
    {"expandable_segments_reserve_by_class", skip_value},
    {"release_lock_on_cudamalloc", skip_value},
    {"graph_capture_record_stream_reuse", skip_value},
    {"pinned_use_cuda_host_register", skip_value},
    {"pinned_num_register_threads", skip_value},
    {"pinned_use_background_threads", skip_value},
    {"pinned_reserve_segment_size_mb", skip_value},
    {"pinned_max_round_threshold_mb", skip_value},
    {"pinned_max_cached_size_mb", skip_value},
};
enum { KEY_COUNT = sizeof keys / sizeof *keys };

static const key *find_key(const parser *p) {
  for (size_t i = 0; i < KEY_COUNT; i++)
    if (token_is(p, keys[i].name)) return &keys[i];
  return NULL;
}

static plim_err unknown_key(parser *p) {
  char word[64];
  token_copy(p, word, sizeof word);
  const char *names[KEY_COUNT];
  for (size_t i = 0; i < KEY_COUNT; i++) names[i] = keys[i].name;
  const char *near = plim_suggest(word, names, KEY_COUNT);
  plim_err err = bad(p, NULL, "'%s' is not a setting of PyTorch's allocator", word);
  if (strncmp(word, "PYTORCH_", 8) == 0)
    plim_error_hint(p->error, "give only the part after the =");
  else if (strchr(word, '='))
    plim_error_hint(p->error, "a setting is written key:value, with a colon");
  else if (near) plim_error_hint(p->error, "did you mean %s?", near);
  else plim_error_hint(p->error, "leave it out, or use one such as expandable_segments:True");
  return err;
}

static void skip_to_comma(parser *p) {
  for (int depth = 0; !at_end(p); next(p)) {
    depth += token_is(p, "[") - token_is(p, "]");
    if (depth <= 0 && token_is(p, ",")) return;
  }
}

// Reads one "key:value" up to the comma after it.
static plim_err read_setting(parser *p, const key *only) {
  const key *found = find_key(p);
  if (!found) return unknown_key(p);
  next(p);
  plim_err err = expect(p, ":", "a setting is written key:value");
  if (!err) err = !only || found == only ? found->read(p) : skip_value(p);
  if (err) return err;
  next(p);
  if (at_end(p) || token_is(p, ",")) return PLIM_OK;
  return expect(p, ",", "settings are separated by commas");
}

// Reads every "key:value" of the string; `only` limits the effect to that one key.
static plim_err read_all(parser *p, const key *only) {
  p->at = p->end = 0;
  next(p);
  while (!at_end(p)) {
    if (token_is(p, ",")) {
      next(p);
      continue;
    }
    plim_err err = read_setting(p, only);
    if (err && !p->is_lenient) return err;
    if (err) skip_to_comma(p), p->left_out = true;
  }
  return PLIM_OK;
}

static plim_err read_text(parser *p, const char *text, plim_alloc_conf *conf) {
  p->text = text;
  p->conf = plim_alloc_conf_default();
  plim_err err = read_all(p, &keys[0]);
  if (!err) err = read_all(p, NULL);
  if (err) return err;
  if (!p->rounding_given) p->conf.max_non_split_rounding_bytes = p->conf.large_segment_bytes;
  *conf = p->conf;
  return PLIM_OK;
}

plim_err plim_alloc_conf_parse(const char *text, plim_alloc_conf *conf, plim_error *error) {
  return read_text(&(parser){.error = error}, text, conf);
}

bool plim_alloc_conf_parse_recorded(const char *text, plim_alloc_conf *conf) {
  parser p = {.is_lenient = true};
  read_text(&p, text, conf);
  return !p.left_out;
}

bool plim_alloc_conf_equal(const plim_alloc_conf *a, const plim_alloc_conf *b) {
  return a->expandable_segments == b->expandable_segments &&
         a->throw_on_cudamalloc_oom == b->throw_on_cudamalloc_oom &&
         a->large_segment_bytes == b->large_segment_bytes &&
         a->max_split_bytes == b->max_split_bytes &&
         a->max_non_split_rounding_bytes == b->max_non_split_rounding_bytes &&
         a->gc_threshold == b->gc_threshold && a->memory_fraction == b->memory_fraction &&
         memcmp(a->divisions, b->divisions, sizeof a->divisions) == 0;
}

// ---- printing ---------------------------------------------------------------------------------

typedef struct {
  char *text;
  size_t size, length;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(writer *w, const char *format, ...) {
  if (w->length >= w->size) return;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(w->text + w->length, w->size - w->length, format, args);
  va_end(args);
  if (n > 0) w->length += (size_t)n;
}

static void put_key(writer *w, const char *name) { put(w, "%s%s:", w->length ? "," : "", name); }

// The shortest text that reads back as the same number.
static void put_number(writer *w, double value) {
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  put(w, "%s", text);
}

static void put_mb(writer *w, const char *name, uint64_t bytes) {
  put_key(w, name);
  put(w, "%llu", (unsigned long long)(bytes / PLIM_MIB));
}

static void put_divisions(writer *w, const uint32_t *divisions) {
  bool all_equal = true, any = false;
  for (int i = 0; i < PLIM_DIVISION_SLOTS; i++) {
    all_equal = all_equal && divisions[i] == divisions[0];
    any = any || divisions[i] > 1;
  }
  if (!any) return;
  put_key(w, "roundup_power2_divisions");
  if (all_equal) {
    put(w, "%u", divisions[0]);
    return;
  }
  for (int i = 0; i < PLIM_DIVISION_SLOTS; i++)
    put(w, "%s%u:%u", i ? "," : "[", 1u << i, divisions[i]);
  put(w, "]");
}

void plim_alloc_conf_print(const plim_alloc_conf *conf, char *text, size_t size) {
  plim_alloc_conf usual = plim_alloc_conf_default();
  writer w = {text, size, 0};
  if (size) text[0] = '\0';
  if (conf->expandable_segments) put_key(&w, "expandable_segments"), put(&w, "True");
  if (conf->large_segment_bytes != usual.large_segment_bytes)
    put_mb(&w, "large_segment_size_mb", conf->large_segment_bytes);
  if (conf->max_split_bytes != UINT64_MAX) put_mb(&w, "max_split_size_mb", conf->max_split_bytes);
  if (conf->max_non_split_rounding_bytes != conf->large_segment_bytes)
    put_mb(&w, "max_non_split_rounding_mb", conf->max_non_split_rounding_bytes);
  if (conf->gc_threshold > 0)
    put_key(&w, "garbage_collection_threshold"), put_number(&w, conf->gc_threshold);
  put_divisions(&w, conf->divisions);
  if (conf->memory_fraction < 1)
    put_key(&w, "per_process_memory_fraction"), put_number(&w, conf->memory_fraction);
  if (conf->throw_on_cudamalloc_oom) put_key(&w, "throw_on_cudamalloc_oom"), put(&w, "True");
}
