// Finds names that hold the content of a file, and names derived from them: cfg = yaml.safe_load(open("train.yaml")).
#include <string.h>
#include <strings.h>

#include "python_reader.h"

static bool ends_as_configuration(const char *text, size_t size) {
  static const char *const endings[] = {".yaml", ".yml", ".json", ".toml"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t n = strlen(endings[i]);
    if (size > n && memcmp(text + size - n, endings[i], n) == 0) return true;
  }
  return false;
}

static bool has_part(const plim_py_reader *r, size_t i, const char *part) {
  size_t size = strlen(part), have = plim_py_size(r, i);
  for (size_t at = 0; at + size <= have; at++)
    if (strncasecmp(plim_py_text(r, i) + at, part, size) == 0) return true;
  return false;
}

static bool has_any(const plim_py_reader *r, size_t i, const char *const *parts) {
  for (; *parts; parts++)
    if (has_part(r, i, *parts)) return true;
  return false;
}

// Whether a name in the expression suggests that it reads a file.
static bool reads_file(const plim_py_reader *r, size_t i, size_t end) {
  static const char *const readers[] = {"load", "open", "read", "parse", "config", "from_", NULL};
  for (; i < end; i++)
    if (plim_py_is_name(r, i, end) && has_any(r, i, readers)) return true;
  return false;
}

static const plim_loaded *load_of(const plim_py_reader *r, size_t name) {
  const plim_settings *s = r->s;
  for (size_t i = s->loads.len; i-- > 0;)
    if (plim_py_is_text(r, name, s->loads.at[i].name)) return &s->loads.at[i];
  return NULL;
}

static const char *keep(plim_py_reader *r, const char *text, size_t size) {
  const char *kept = plim_settings_keep(r->s, text, size);
  if (!kept) plim_py_no_memory(r);
  return kept ? kept : "";
}

static void add(plim_py_reader *r, size_t name, plim_loaded load) {
  load.name = keep(r, plim_py_text(r, name), plim_py_size(r, name));
  if (!vec_push(&r->s->loads, load)) plim_py_no_memory(r);
}

// Finds a literal path such as "train.yaml" in the call.
static bool find_literal(plim_py_reader *r, size_t i, size_t end, plim_loaded *out) {
  for (; i < end; i++) {
    plim_chars text = {0};
    bool is_text = plim_py_at(r, i)->kind == PLIM_PY_STRING && plim_py_strings(r, i, i + 1, &text);
    bool is_path = is_text && ends_as_configuration(text.at ? text.at : "", text.len);
    if (is_path) out->path = keep(r, text.at, text.len);
    vec_free(&text);
    if (is_path) return true;
  }
  return false;
}

// Finds a name that holds the path: load_config(args.config), open(CONFIG_PATH).
static bool find_reference(plim_py_reader *r, size_t i, size_t end, plim_loaded *out) {
  static const char *const paths[] = {"config", "cfg",  "conf", "yaml",
                                      "path",   "file", "argv", NULL};
  for (; i < end; i++) {
    size_t last = plim_py_dotted(r, i, end);
    if (last == end) continue;
    bool is_call = plim_py_is(r, last + 1, end, '(');
    bool is_keyword = plim_py_is(r, last + 1, end, '=');
    if (!is_call && !is_keyword && has_any(r, last, paths)) {
      size_t size = plim_py_at(r, last)->end - plim_py_at(r, i)->begin;
      out->from = keep(r, plim_py_text(r, i), size);
      plim_py_test test = {(uint32_t)r->s->loads.len,
                           {.setting = (uint32_t)r->s->at.len,
                            .scope = r->block->scope,
                            .line = r->line,
                            .base_size = (uint32_t)plim_py_size(r, i),
                            .key = out->from}};
      if (!vec_push(&r->names.loads, test)) plim_py_no_memory(r);
      return true;
    }
    i = last;
  }
  return false;
}

// Finds a loaded name that is converted: Box(cfg), SimpleNamespace(**cfg), yaml.safe_load(f).
static bool find_made_of(plim_py_reader *r, size_t i, size_t end, plim_loaded *out) {
  for (; i < end; i++) {
    bool is_plain = plim_py_is_name(r, i, end) && !plim_py_is(r, i + 1, end, '.') &&
                    !plim_py_is(r, i + 1, end, '=') && !plim_py_is(r, i + 1, end, '(');
    const plim_loaded *load = is_plain ? load_of(r, i) : NULL;
    if (!load) continue;
    *out = *load;
    return true;
  }
  return false;
}

// Finds a part of a loaded name: train = cfg["train"].
static bool find_part(plim_py_reader *r, size_t i, size_t end, plim_loaded *out) {
  plim_chars key = {0};
  const plim_loaded *load = plim_py_is_name(r, i, end) ? load_of(r, i) : NULL;
  bool is_part = load && end - i > 1 && plim_py_reference_key(r, i, end, &key);
  if (is_part) {
    plim_chars prefix = {0};
    size_t base = plim_py_size(r, i) + 1;
    bool ok = plim_chars_add_text(&prefix, load->prefix) &&
              plim_chars_add(&prefix, key.at + base, key.len - base) && vec_push(&prefix, '.');
    *out = *load;
    out->prefix = ok ? keep(r, prefix.at, prefix.len) : "";
    if (!ok) plim_py_no_memory(r);
    vec_free(&prefix);
  }
  vec_free(&key);
  return is_part;
}

// Every name in a call is compared with all loads, so hostile scripts must not have any number of them. A name beyond them
// is one whose value is unknown.
enum { MOST_LOADS = 1024 };

void plim_py_note_load(plim_py_reader *r, size_t name, size_t i, size_t end) {
  plim_loaded load = {.prefix = ""};
  size_t last = plim_py_dotted(r, i, end);
  bool is_call = last < end && plim_py_is(r, last + 1, end, '(');
  if (r->s->loads.len == MOST_LOADS) return;
  bool is_found = find_part(r, i, end, &load);
  if (!is_found && is_call) {
    bool reads = reads_file(r, i, end);
    is_found = (reads && find_literal(r, last + 1, end, &load)) ||
               find_made_of(r, last + 1, end, &load) ||
               (reads && find_reference(r, last + 1, end, &load));
  }
  load.is_changed |= is_call && plim_py_merges(r, last);
  if (is_found) add(r, name, load);
}
