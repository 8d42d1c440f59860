// Checks of PYTORCH_CUDA_ALLOC_CONF and PYTORCH_ALLOC_CONF, wherever they are set.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_conf.h"
#include "check.h"
#include "key_names.h"
#include "python_code.h"

// The first one that is set counts, in this order.
static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
enum { OLDER_NAME, NEWER_NAME, NAMES };

// One place where one of them is set.
typedef struct {
  int name;
  const char *text;
  check_place place; // file NULL: set in the environment
  char where[96];
  int layer;       // later ones replace earlier ones
  bool is_default; // os.environ.setdefault: replaces nothing
  bool is_valid;
  plim_alloc_conf conf;
} variable;

enum { ENVIRONMENT, LAUNCHED, PROGRAM, LAYERS };

typedef struct {
  vec(variable) list;
  size_t first[NAMES][LAYERS][2]; // of a name, a layer and is_default: its first place, plus one
  bool has_unexported;            // set in a script without export
  bool is_out;                    // out of memory
} variables;

// ---- where they are set -----------------------------------------------------------------------------

// Whether the line has setdefault before the value.
static bool is_setdefault(const check_place *place) {
  const char *text = place->file->text;
  size_t start = place->setting->span.begin;
  while (start > 0 && text[start - 1] != '\n') start--;
  size_t end = place->setting->span.begin;
  return plim_python_find(&place->file->code, "setdefault(", start, end) != SIZE_MAX;
}

static void add(variables *v, int name, const char *text, check_place place) {
  if (!vec_push(&v->list, (variable){.name = name, .text = text, .place = place})) {
    v->is_out = true;
    return;
  }
  variable *x = &v->list.at[v->list.len - 1];
  snprintf(x->where, sizeof x->where, "the environment");
  if (!place.file) return;
  bool is_python = place.file->settings.format == PLIM_FORMAT_PYTHON;
  x->layer = is_python ? PROGRAM : LAUNCHED;
  x->is_default = is_python && is_setdefault(&place);
  snprintf(x->where, sizeof x->where, "%.80s:%d", place.file->path, place.setting->line);
}

static int name_of(const char *key) {
  static const char *const patterns[NAMES] = {"pytorch_cuda_alloc_conf", "pytorch_alloc_conf"};
  char name[PLIM_KEY_BYTES];
  plim_key_name(key, name);
  for (int i = 0; i < NAMES; i++)
    if (plim_key_fits(name, patterns[i], true)) return i;
  return NAMES;
}

static void gather_file(variables *v, const check *c, const plim_project_file *f) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *s = &f->settings.at.at[i];
    int name = name_of(s->key);
    if (name == NAMES) continue;
    bool is_unexported = s->is_unexported && !c->environment(names[name]);
    if (is_unexported) v->has_unexported = true;
    else if (s->value.kind == PLIM_VALUE_TEXT)
      add(v, name, s->value.text, (check_place){f, s, s->value});
  }
}

static void gather(variables *v, const check *c) {
  for (int i = 0; i < NAMES; i++) {
    const char *text = c->environment(names[i]);
    if (text && *text) add(v, i, text, (check_place){0});
  }
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++) gather_file(v, c, p->files.at[i]);
  for (size_t i = v->list.len; i-- > 0;) {
    const variable *x = &v->list.at[i];
    v->first[x->name][x->layer][x->is_default] = i + 1;
  }
}

// The variable that overrides it; NULL: none.
static const variable *successor(const variables *v, const variable *x) {
  size_t first = SIZE_MAX;
  for (int layer = 0; layer < LAYERS; layer++)
    for (int is_default = 0; is_default < 2; is_default++) {
      size_t at = v->first[x->name][layer][is_default];
      bool is_over = layer > x->layer && !is_default;
      bool was_before = x->is_default && layer < x->layer;
      if (at && at <= first && (is_over || was_before)) first = at;
    }
  return first == SIZE_MAX ? NULL : &v->list.at[first - 1];
}

static const variable *in_force(const variables *v, int name) {
  for (size_t i = v->list.len; i-- > 0;)
    if (v->list.at[i].name == name && !successor(v, &v->list.at[i])) return &v->list.at[i];
  return NULL;
}

// ---- whether they are valid -------------------------------------------------------------------------

static void show(check *c, check_finding *f, const variable *x, size_t byte) {
  if (!x->place.file) {
    char *line;
    if (asprintf(&line, "%s=%s", names[x->name], x->text) < 0) {
      c->has_no_memory = true;
      return;
    }
    check_show(f, line, strlen(names[x->name]) + 1 + byte);
    free(line);
    return;
  }
  const plim_span span = x->place.setting->span;
  const char *text = x->place.file->text;
  const char *value = memmem(text + span.begin, span.end - span.begin, x->text, strlen(x->text));
  check_at(f, &x->place);
  if (value) check_show(f, text, (size_t)(value - text) + byte);
}

// A question is not a fix: "did you mean max_split_size_mb?" becomes "write max_split_size_mb".
static void fix_as_hinted(check_finding *f, const char *hint) {
  static const char question[] = "did you mean ";
  size_t n = sizeof question - 1;
  bool asks = strncmp(hint, question, n) == 0;
  if (asks) check_fix(f, "write %.*s", (int)strcspn(hint + n, "?"), hint + n);
  else check_fix(f, "%s", hint);
}

static void refuse(check *c, const variable *x, const variable *instead, const plim_error *error) {
  check_finding *f = check_add(c, "allocator.invalid", instead ? CHECK_WARNING : CHECK_FAILS,
                               "%s: %s", names[x->name], error->message);
  show(c, f, x, error->byte == PLIM_UNKNOWN ? 0 : (size_t)error->byte);
  fix_as_hinted(f, error->hint);
  if (instead) check_why(f, "PyTorch would refuse this value; %s is used instead", instead->where);
  else
    check_why(
        f, "PyTorch reads it when the first tensor is moved to the GPU, and stops with an error");
}

static bool has_fight(const check *c, const plim_alloc_conf *conf);

// A value that fights itself is reported as that, not as fine.
static void accept(check *c, const variable *x) {
  if (has_fight(c, &x->conf)) return;
  check_finding *f =
      check_add(c, "allocator", CHECK_OK, "%s (%s): %.160s", names[x->name], x->where, x->text);
  if (x->place.file) check_at(f, &x->place);
}

static void report_other_backend(check *c, const variable *x) {
  check_finding *f = check_add(c, "allocator.backend", CHECK_NOTE,
                               "%s selects cudaMallocAsync (%s)", names[x->name], x->where);
  if (x->place.file) check_at(f, &x->place);
  check_why(f, "cudaMallocAsync is CUDA's own allocator: the other settings have no effect, and "
               "predictions here are for PyTorch's allocator");
  check_fix(f, "remove backend:cudaMallocAsync");
}

static void judge(check *c, const variables *v, variable *x) {
  plim_error error = {0};
  if (strstr(x->text, "cudaMallocAsync")) {
    report_other_backend(c, x);
    return;
  }
  x->is_valid = !plim_alloc_conf_parse(x->text, &x->conf, &error);
  if (x->is_valid) accept(c, x);
  else refuse(c, x, successor(v, x), &error);
}

// ---- settings that fight each other -----------------------------------------------------------------

static bool has_cap(const check *c, const plim_alloc_conf *conf) {
  return conf->memory_fraction < 1 || check_code(c, "set_per_process_memory_fraction", NULL);
}

static bool is_expandable_split(const check *c, const plim_alloc_conf *conf) {
  (void)c;
  return conf->expandable_segments && conf->max_split_bytes != UINT64_MAX;
}

static bool is_expandable_collected(const check *c, const plim_alloc_conf *conf) {
  (void)c;
  return conf->expandable_segments && conf->gc_threshold > 0;
}

static bool is_collected_without_cap(const check *c, const plim_alloc_conf *conf) {
  return !conf->expandable_segments && conf->gc_threshold > 0 && !has_cap(c, conf);
}

static bool is_expandable_on_wsl(const check *c, const plim_alloc_conf *conf) {
  return conf->expandable_segments && c->machine.is_wsl;
}

// Each was measured, or is reported in PyTorch's issues.
static const struct {
  bool (*applies)(const check *c, const plim_alloc_conf *conf);
  const char *what, *why, *fix;
} fights[] = {
    {is_expandable_split, "combines expandable_segments with max_split_size_mb",
     "together they make the allocator request new memory although it has free memory: "
     "reserved memory can grow without end (pytorch#123548)",
     "remove max_split_size_mb"},
    {is_expandable_collected, "combines expandable_segments with garbage_collection_threshold",
     "the threshold has no effect: expandable segments are never garbage collected",
     "remove garbage_collection_threshold"},
    {is_collected_without_cap, "sets garbage_collection_threshold without a memory limit",
     "the threshold is a fraction of the limit set by set_per_process_memory_fraction; "
     "without that limit it has no effect",
     "add per_process_memory_fraction:0.95, or remove the threshold"},
    {is_expandable_on_wsl, "sets expandable_segments, which is unreliable under WSL",
     "mapping memory can fail under WSL, in cuMemSetAccess (pytorch#192330)",
     "remove expandable_segments under WSL"},
};

static bool has_fight(const check *c, const plim_alloc_conf *conf) {
  for (size_t i = 0; i < sizeof fights / sizeof *fights; i++)
    if (fights[i].applies(c, conf)) return true;
  return false;
}

static void judge_fights(check *c, const variable *x) {
  for (size_t i = 0; i < sizeof fights / sizeof *fights; i++) {
    if (!fights[i].applies(c, &x->conf)) continue;
    check_finding *f =
        check_add(c, "allocator.fight", CHECK_WARNING, "%s %s", x->where, fights[i].what);
    if (x->place.file) check_at(f, &x->place);
    check_why(f, "%s", fights[i].why);
    check_fix(f, "%s", fights[i].fix);
  }
}

// ---- both names -------------------------------------------------------------------------------------

static bool is_same(const variable *a, const variable *b) {
  bool is_known = a->is_valid && b->is_valid;
  return is_known ? plim_alloc_conf_equal(&a->conf, &b->conf) : strcmp(a->text, b->text) == 0;
}

static void compare_names(check *c, const variable *older, const variable *newer) {
  if (older && newer && !is_same(older, newer)) {
    check_finding *f = check_add(c, "allocator.both", CHECK_WARNING, "%s (%s) and %s (%s) differ",
                                 names[0], older->where, names[1], newer->where);
    check_why(f, "PyTorch uses %s and ignores the other", names[OLDER_NAME]);
    check_fix(f, "delete %s (%s), or set both to the same value", names[NEWER_NAME], newer->where);
  }
  if (!older && newer) {
    check_finding *f = check_add(c, "allocator.name", CHECK_WARNING, "only %s is set (%s)",
                                 names[1], newer->where);
    check_why(f, "torch 2.9 and older ignore this name without a warning");
    if (newer->is_valid) check_fix(f, "export %s=%s", names[OLDER_NAME], newer->text);
    else check_fix(f, "rename it to %s", names[OLDER_NAME]);
  }
}

static void compare_places(check *c, const variables *v) {
  for (size_t i = 0; i < v->list.len; i++) {
    const variable *x = &v->list.at[i], *instead = successor(v, x);
    if (!instead || !x->is_valid || is_same(x, instead)) continue;
    check_finding *f =
        check_add(c, "allocator.replaced", CHECK_NOTE, "%s in %s has no effect: %s overrides it",
                  names[x->name], x->where, instead->where);
    check_fix(f, "set it in one place only");
  }
}

static void report_unset(check *c, bool has_unexported) {
  const char *state = has_unexported ? "exported" : "set";
  uint64_t world = check_is_single(c) ? 1 : check_world(c) > 1 ? (uint64_t)check_world(c) : 2;
  if (project_launcher_sets_conf_on(&c->files.project, world)) return; // a note says so
  if (c->machine.is_wsl) {
    check_add(c, "allocator", CHECK_OK, "%s is not %s: PyTorch's default allocator settings",
              names[OLDER_NAME], state);
    return;
  }
  check_finding *f = check_add(c, "allocator", CHECK_NOTE,
                               "%s is not %s; expandable segments would avoid most fragmentation",
                               names[OLDER_NAME], state);
  if (!has_unexported) check_fix(f, "export %s=expandable_segments:True", names[OLDER_NAME]);
}

void check_allocator(check *c) {
  variables v = {0};
  gather(&v, c);
  if (!v.list.len) report_unset(c, v.has_unexported);
  for (size_t i = 0; i < v.list.len; i++) judge(c, &v, &v.list.at[i]);
  for (size_t i = 0; i < v.list.len; i++)
    if (v.list.at[i].is_valid) judge_fights(c, &v.list.at[i]);
  compare_names(c, in_force(&v, OLDER_NAME), in_force(&v, NEWER_NAME));
  compare_places(c, &v);
  if (v.is_out) c->has_no_memory = true;
  vec_free(&v.list);
}
