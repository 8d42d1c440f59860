// What the scripts of TRL and alignment-handbook do with their files, where the files are all that plimsoll sees.
#include <stdio.h>

#include "project_job.h"

// Before 0.28, _prepare_peft_model of TRL's dpo_trainer.py refuses it beside adapters, unless force_use_ref_model is on; 0.28
// turns that on by itself, and later versions do not ask for it.
#define ACCEPTED_SINCE PLIM_RELEASE(0, 28)

// Scripts that pass a reference model to their trainer, also beside adapters, whose base would do. A key, or the command,
// says which one it is.
static const struct {
  plim_method method;
  const char *key; // NULL: any
  uint16_t before; // the release of TRL from which on the script passes none; 0: it always does
  const char *script;
} scripts[] = {
    // scripts/dpo.py as it is in summer 2026. Its older script, run_dpo.py, passes none beside adapters, and has dataset_mixer.
    {PLIM_METHOD_DPO, "dataset_mixture", 0, "alignment-handbook's dpo.py"},
    // trl/scripts/kto.py in the wheels of 0.15 to 1.8; its dpo.py passes none beside adapters.
    {PLIM_METHOD_KTO, NULL, PLIM_RELEASE(1, 8), "TRL's kto.py"},
};

// The command starts a script of TRL's files that is not among the files.
static bool is_of_script(const project_job *p) {
  return p->project.dialect == PLIM_DIALECT_TRL && !plim_project_has_script(&p->project);
}

static const char *script_of(const project_job *p, plim_method method, uint16_t trl) {
  if (!is_of_script(p)) return NULL;
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    bool is_then = !scripts[i].before || (trl && trl < scripts[i].before);
    bool has_key = !scripts[i].key || project_job_setting(p, scripts[i].key, "");
    if (scripts[i].method == method && is_then && has_key) return scripts[i].script;
  }
  return NULL;
}

static bool is_forced(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "force_use_ref_model", "force_use_ref_model");
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

void project_job_fill_reference(project_job *p, job_args *a, plim_method method) {
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  const char *script = script_of(p, method, trl);
  if (!script || job_is_typed(a, &a->reference) || a->reference) return;
  bool is_refused = method == PLIM_METHOD_DPO && trl && trl < ACCEPTED_SINCE && !is_forced(p);
  plim_project_knob *rank = &p->project.knobs[PLIM_KNOB_LORA_RANK];
  a->passes_reference = true;
  if (!is_refused && a->lora_rank)
    plim_note_add(&p->notes, "reads.reference", NULL,
                  "%s loads a separate reference model even with adapters, although the base model "
                  "would do: the model is in memory twice",
                  script);
  else if (a->lora_rank)
    plim_note_add(&p->notes, "stops.reference", NULL,
                  "%s passes a reference model beside adapters, which TRL before 0.28 refuses, so "
                  "the run will not start; set force_use_ref_model: true, or use TRL 0.28 or newer",
                  script);
  else if (is_refused && !rank->is_fixed) {
    rank->is_fixed = rank->is_refused = true;
    snprintf(rank->why, sizeof rank->why,
             "%s passes a reference model, which TRL before 0.28 refuses beside adapters", script);
  }
}

// alignment-handbook asks for TRL 0.19 since its ScriptArguments (src/alignment/configs.py) have dataset_mixture alone, and
// TrlParser refuses keys that no class has. Nothing else reads dataset_mixer.
void project_job_note_mixer(project_job *p, const job_args *a) {
  const plim_setting *s = project_job_setting(p, "dataset_mixer", "");
  if (!s || !is_of_script(p) || job_release(a, PLIM_LIBRARY_TRL) < PLIM_RELEASE(0, 19)) return;
  plim_note_add(&p->notes, "stops.dataset_mixer", NULL,
                "alignment-handbook has no dataset_mixer since it asks for TRL 0.19, and TRL's "
                "parser refuses keys that it does not know, so the run will not start; write "
                "dataset_mixture");
  plim_note_at(&p->notes, p->project.files.at[0]->path, s->line);
}
