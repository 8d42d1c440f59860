// Whether the files train on images or sound.
#include <fnmatch.h>
#include <string.h>

#include "project_job.h"

static const char *text_of(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
}

// With a processor, Axolotl's batches have images (core/builders/causal.py).
static bool has_processor(const project_job *p) {
  return *text_of(project_job_setting(p, "processor_type", "processor_type"));
}

// Of torchtune's data sets, those of torchtune.datasets.multimodal have images; others are the user's own.
static bool has_images(const project_job *p) {
  bool has_texts = false;
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++) {
      const char *data = text_of(&s->at.at[k]);
      bool is_data = fnmatch("dataset._component_", s->at.at[k].key, 0) == 0 ||
                     fnmatch("dataset[.[]*._component_", s->at.at[k].key, 0) == 0;
      bool is_text = strncmp(data, "torchtune.datasets.", 19) == 0 && !strstr(data, "multimodal");
      if (is_data && !is_text) return true;
      has_texts |= is_data;
    }
  }
  return !has_texts;
}

// LLaMA-Factory's towers are frozen, and keep nothing for backward, unless the files say otherwise (freeze_vision_tower of
// hparams/finetuning_args.py); the tokens of images count in cutoff_len.
static bool trains_tower(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "freeze_vision_tower", "");
  return s && s->value.kind == PLIM_VALUE_BOOL && !s->value.flag;
}

static bool has_media(const project_job *p) { return plim_project_has_media(&p->project); }

// What a script makes of images.
static bool calls_processor(const project_job *p) {
  static const char *const words[] = {"AutoProcessor", "DataCollatorForVisionLanguageModeling",
                                      "FastVisionModel", "UnslothVisionDataCollator"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (project_job_calls(p, words[i])) return true;
  return false;
}

bool project_job_sees_images(const project_job *p) {
  static bool (*const signs[PLIM_DIALECTS])(const project_job *) = {
      [PLIM_DIALECT_AXOLOTL] = has_processor,
      [PLIM_DIALECT_TORCHTUNE] = has_images,
      [PLIM_DIALECT_LLAMA_FACTORY] = trains_tower,
      [PLIM_DIALECT_LLAMA_FACTORY_V1] = has_media,
  };
  plim_dialect d = p->project.dialect;
  return d < PLIM_DIALECTS && signs[d] ? signs[d](p) : calls_processor(p);
}
