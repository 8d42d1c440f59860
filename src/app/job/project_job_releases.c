// Settings that a later release no longer has: they say which versions the files were written for.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "key_names.h"
#include "project_job.h"

// From TRL's Config classes in the wheels of 0.19 to 1.16: the first release whose class lacks the field.
static const struct {
  const char *key, *class;
  plim_method method;
  uint16_t without;
} removed[] = {
    {"max_seq_length", "sftconfig", PLIM_METHOD_TEXTS, PLIM_RELEASE(0, 20)},
    {"max_prompt_length", "dpoconfig", PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {"max_completion_length", "dpoconfig", PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {"generate_during_eval", "dpoconfig", PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {"rpo_alpha", "dpoconfig", PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {"reference_free", "dpoconfig", PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {"max_prompt_length", "ktoconfig", PLIM_METHOD_KTO, PLIM_RELEASE(0, 27)},
    {"max_prompt_length", "orpoconfig", PLIM_METHOD_ORPO, PLIM_RELEASE(0, 28)},
};

// An argument of the class, or a key of a file whose keys are the fields of the class.
static bool is_field(const plim_project_file *f, const plim_setting *s, const char *key,
                     const char *class, bool has_script) {
  char name[PLIM_KEY_BYTES], called[96];
  if (s->is_aside || s->is_faint) return false;
  plim_key_name(s->key, name);
  snprintf(called, sizeof called, "%s.%s", class, key);
  if (f->settings.format == PLIM_FORMAT_PYTHON) return plim_key_fits(name, called, true);
  return !has_script && strcmp(name, key) == 0;
}

static const plim_setting *find_field(const project_job *p, const char *key, const char *class,
                                      const char **file) {
  bool has_script = false;
  for (size_t i = 0; i < p->project.files.len; i++)
    has_script |= p->project.files.at[i]->settings.format == PLIM_FORMAT_PYTHON;
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_project_file *f = p->project.files.at[i];
    for (size_t k = 0; k < f->settings.at.len; k++)
      if (is_field(f, &f->settings.at.at[k], key, class, has_script)) {
        *file = f->path;
        return &f->settings.at.at[k];
      }
  }
  return NULL;
}

// The newest release that has the field, of those that the project allows; 0: it allows none.
static uint16_t newest_with(const plim_pin *pin, uint16_t without) {
  char text[96];
  bool is_known;
  snprintf(text, sizeof text, "%s%s<%s", pin->asked, *pin->asked ? "," : "",
           plim_release_words(without).text);
  uint16_t release = plim_release_allowed(PLIM_LIBRARY_TRL, text, strlen(text), &is_known);
  return is_known ? release : 0;
}

static void narrow(project_job *p, const job_args *a, plim_pin *pin, size_t row) {
  const char *file = NULL;
  const char *key = removed[row].key;
  uint16_t without = removed[row].without, release = newest_with(pin, without);
  bool is_typed = job_release_is_typed(a, PLIM_LIBRARY_TRL);
  bool is_open = !is_typed && (!pin->release || pin->oldest < pin->release);
  if (pin->release && pin->release < without) return;
  const plim_setting *s = find_field(p, key, removed[row].class, &file);
  if (!s || !is_open || !release) return;
  if (!pin->release) {
    *pin = (plim_pin){.line = s->line};
    snprintf(pin->file, sizeof pin->file, "%.255s", file);
  }
  pin->is_known = pin->is_narrowed = true;
  pin->release = release;
  if (!pin->oldest) pin->oldest = release;
  plim_note_add(&p->notes, "assumed.trl", NULL,
                "TRL has no %s since %s: predicted as TRL %s, the newest version that has it", key,
                plim_release_words(without).text, plim_release_words(release).text);
  plim_note_at(&p->notes, file, s->line);
}

void project_job_narrow_releases(project_job *p, job_args *a) {
  plim_dialect dialect = p->project.dialect;
  plim_method method = plim_project_trains(&p->project).method;
  bool is_of_trl =
      dialect == PLIM_DIALECT_TRL || (dialect == PLIM_DIALECT_HF && method != PLIM_METHOD_TEXTS);
  for (size_t i = 0; is_of_trl && i < sizeof removed / sizeof *removed; i++)
    if (removed[i].method == method) narrow(p, a, &a->pins.of[PLIM_LIBRARY_TRL], i);
}
