// Looks up settings of the files for the checks.
#include <string.h>
#include <strings.h>

#include "check.h"
#include "key_names.h"
#include "python_code.h"

enum { ROOTS = 8 };

bool check_is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

bool check_is_on(const plim_value *value) {
  if (value->kind == PLIM_VALUE_TEXT) return strcasecmp(value->text, "true") == 0;
  return value->kind == PLIM_VALUE_BOOL && value->flag;
}

bool check_is_known(plim_origin origin) {
  return origin == PLIM_EXPLICIT || origin == PLIM_DEFAULTED;
}

// ---- settings ---------------------------------------------------------------------------------------

// A bare flag is on; a reference has the value of what it refers to.
static plim_value value_of(const plim_settings *s, const plim_setting *setting) {
  bool is_bare = setting->span.begin == setting->span.end && setting->key[0] == '-';
  if (is_bare && setting->value.kind == PLIM_VALUE_NULL)
    return (plim_value){.kind = PLIM_VALUE_BOOL, .flag = true};
  for (int i = 0; i < ROOTS && setting->value.kind == PLIM_VALUE_DERIVED && setting->root; i++) {
    const plim_setting *root = plim_settings_find(s, setting->root);
    if (!root || root == setting || strpbrk(setting->value.text, "+*/%<>=!&|?, ")) break;
    setting = root;
  }
  return setting->value;
}

// The last setting of a file that matches and, if required, is on.
static bool find_in(const plim_project_file *f, const char *key, bool must_be_on,
                    check_place *out) {
  char name[PLIM_KEY_BYTES];
  for (size_t i = f->settings.at.len; i-- > 0;) {
    const plim_setting *setting = &f->settings.at.at[i];
    plim_key_name(setting->key, name);
    if (!plim_key_fits(name, key, true) || plim_key_is_of_evaluation(name)) continue;
    if (setting->is_unexported) continue;
    plim_value value = value_of(&f->settings, setting);
    if (must_be_on && !check_is_on(&value)) continue;
    *out = (check_place){f, setting, value};
    return true;
  }
  return false;
}

static bool find_among(const check *c, bool commands, const char *key, bool must_be_on,
                       check_place *out) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++)
    if (check_is_command(p->files.at[i]) == commands &&
        find_in(p->files.at[i], key, must_be_on, out))
      return true;
  return false;
}

bool check_find(const check *c, const char *key, check_place *out) {
  return find_among(c, true, key, false, out) || find_among(c, false, key, false, out);
}

bool check_find_on(const check *c, const char *key, check_place *out) {
  if (find_among(c, true, key, false, out)) return check_is_on(&out->value);
  return find_among(c, false, key, true, out);
}

// ---- code -------------------------------------------------------------------------------------------

const plim_project_file *check_code(const check *c, const char *piece, size_t *byte) {
  const plim_project *p = &c->files.project;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_code = f->settings.format == PLIM_FORMAT_PYTHON;
    size_t at = is_code ? plim_python_find(&f->code, piece, 0, SIZE_MAX) : SIZE_MAX;
    if (at != SIZE_MAX && byte) *byte = at;
    if (at != SIZE_MAX) return f;
  }
  return NULL;
}

// ---- knobs ------------------------------------------------------------------------------------------

bool check_says(const check *c, plim_knob knob, const char *value) {
  const plim_project_knob *k = &c->files.project.knobs[knob];
  return check_is_known(k->origin) && k->value.kind == PLIM_VALUE_TEXT &&
         strcmp(k->value.text, value) == 0;
}

static int64_t count_in(int64_t number) { return number > 0 && number <= INT32_MAX ? number : 0; }

int64_t check_number(const check *c, plim_knob knob) {
  const plim_project_knob *k = &c->files.project.knobs[knob];
  bool is_count = check_is_known(k->origin) && k->value.kind == PLIM_VALUE_INTEGER;
  return is_count ? count_in(k->value.integer) : 0;
}

int64_t check_product(int64_t a, int64_t b, int64_t c) {
  int64_t ab, abc;
  bool overflows = __builtin_mul_overflow(a, b, &ab) || __builtin_mul_overflow(ab, c, &abc);
  return overflows ? 0 : abc;
}

int64_t check_world(const check *c) {
  if (c->world) return c->world <= INT32_MAX ? (int64_t)c->world : 0;
  return check_number(c, PLIM_KNOB_WORLD);
}

int64_t check_local_world(const check *c) {
  int64_t world = check_world(c), nodes = check_number(c, PLIM_KNOB_NODES);
  if (!nodes) nodes = 1;
  return world > nodes ? world / nodes : 1;
}

// The number of visible cards is not the number of processes.
static bool is_of_processes(const plim_project_knob *world) {
  return world->place_count && !strcasestr(world->places[0].setting->key, "visible_devices");
}

bool check_is_sharded(const check *c) {
  const plim_project_knob *strategy = &c->files.project.knobs[PLIM_KNOB_STRATEGY];
  bool is_explicit = strategy->origin == PLIM_EXPLICIT && strategy->value.kind == PLIM_VALUE_TEXT;
  if (is_explicit && strcmp(strategy->value.text, "none") != 0) return true;
  return check_number(c, PLIM_KNOB_WORLD) > 1 &&
         is_of_processes(&c->files.project.knobs[PLIM_KNOB_WORLD]);
}

bool check_is_single(const check *c) {
  int64_t world = check_world(c);
  return world == 1 || (!world && project_job_is_plain(&c->files));
}

const plim_gpu *check_gpu(const check *c) {
  if (c->gpu) return plim_gpu_named(c->gpu);
  const plim_card *card = &c->cards[0];
  if (!c->card_count || card->total_bytes == PLIM_UNKNOWN) return NULL;
  return plim_gpu_present(card->name, card->total_bytes / PLIM_MIB);
}
