// Adds use_reentrant=False when checkpointing is turned on for adapters. By default, transformers 4 uses reentrant
// checkpointing, with which adapters on a frozen base get no gradients.
#include <stdlib.h>
#include <string.h>

#include "project_change_impl.h"

#define KWARGS "gradient_checkpointing_kwargs"
#define KEY KWARGS ".use_reentrant"
#define AS_DICT "{\"use_reentrant\": False}"

static bool is_explicit(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    for (size_t k = 0; k < p->files.at[i]->settings.at.len; k++)
      if (strstr(p->files.at[i]->settings.at.at[k].key, KWARGS)) return true;
  return false;
}

// TRL and ecosystems built on it set use_reentrant themselves.
static bool is_plain_trainer(plim_dialect d) {
  return d == PLIM_DIALECT_HF || d == PLIM_DIALECT_SENTENCE;
}

static bool has_adapters(const plim_project *p) {
  const plim_value *rank = &p->knobs[PLIM_KNOB_LORA_RANK].value;
  return rank->kind == PLIM_VALUE_INTEGER && rank->integer > 0;
}

// Editors can only write plain values, so a False is written first and then replaced by a dict.
static bool make_dict(plim_edit *edit) {
  char *at = edit->text ? strstr(edit->text, KWARGS "=False") : NULL, *text = NULL;
  if (!at) return false;
  at += sizeof KWARGS;
  int size = asprintf(&text, "%.*s" AS_DICT "%s", (int)(at - edit->text), edit->text,
                      at + sizeof "False" - 1);
  if (size < 0) return false;
  free(edit->text);
  edit->text = text;
  return true;
}

static bool insert(const plim_project_file *f, plim_edit *edit) {
  plim_format format = f->settings.format;
  bool is_python = format == PLIM_FORMAT_PYTHON;
  bool is_command = format == PLIM_FORMAT_SHELL || format == PLIM_FORMAT_DOCKERFILE;
  plim_value value = {.kind = PLIM_VALUE_BOOL};
  char key[PLIM_KEY_BYTES];
  if (is_command)
    value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = "{\"use_reentrant\": false}"};
  *edit = (plim_edit){0};
  if (!plim_project_place(f, is_python || is_command ? KWARGS : KEY, true, key)) return false;
  if (plim_settings_insert(&f->settings, key, &value, edit, NULL)) return false;
  return !is_python || make_dict(edit);
}

void plim_project_add_reentrant(const plim_project *p, size_t file, plim_edit_set *out) {
  const plim_project_file *f = p->files.at[file];
  plim_edit edit;
  if (!is_plain_trainer(f->recipe.dialect) || !has_adapters(p) || is_explicit(p)) return;
  if (insert(f, &edit) && vec_push(&out->at, (plim_file_edit){file, edit})) return;
  free(edit.text);
}
