// Fills in a template of a trainer's settings.
//
// A template is a text with words in angle brackets. <batch> is replaced by the value of that name; a line with a value
// that the run does not have is left out. <?lora> and <!lora> print nothing: the line stays if the run has adapters, or if
// it has none. Of several conditions in a line, all must hold.
#ifndef PLIM_APP_SETTINGS_TEXT_H
#define PLIM_APP_SETTINGS_TEXT_H

#include "trainer_settings.h"

// The run that is written down.
typedef struct {
  const job_args *typed; // as it was asked for
  const job_args *want;  // with what follows from it
  const job_request *request;
} settings_run;

// The caller frees *out.
plim_err settings_fill(const char *text, const settings_run *run, char **out, plim_error *error);

// Whether a word between angle brackets is known: "batch", "?lora".
bool settings_word_is_known(const char *word, size_t size);

// The name of the run's model for a trainer: an id of the hub, or a path to fill in.
const char *settings_model(const settings_run *run);

#endif
