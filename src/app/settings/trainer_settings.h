// A run that is described by options, as the settings of a trainer: the text that a person would write for Axolotl,
// transformers and others.
//
//   settings_result s = {.args = &args, .dialect = settings_dialect_named("axolotl")};
//   err = settings_make(&s, &source, &error);
//   if (!err) puts(s.text);
//   settings_clear(&s);
//
// The text begins as a template (settings_templates.c). The settings that are in the key tables of io/dialect are then put
// into it as a plan puts them into a user's files. At last the text is read as files of users are, and what is read is
// compared with what was asked for: where they differ, the trainer has no setting, and the option is in `left_out`.
#ifndef PLIM_APP_TRAINER_SETTINGS_H
#define PLIM_APP_TRAINER_SETTINGS_H

#include "edit_set.h"
#include "job_as_options.h"
#include "json_writer.h"
#include "project_job.h"

typedef enum {
  SETTINGS_TRAIN, // the file trains
  SETTINGS_PART,  // it only configures how a run is launched
  SETTINGS_LINE   // it is a command line of plimsoll
} settings_kind;

typedef struct {
  const char *name, *title;
  plim_dialect dialect;
  settings_kind kind;
  const char *format;  // "yaml", "json", "python", "shell"
  const char *file;    // its usual name; NULL: it is no file
  const char *text;    // the template (settings_text.h)
  const char *command; // what starts it, a template as well; empty: nothing
} settings_dialect;

extern const settings_dialect settings_dialects[]; // ends with {0}

// By name, ignoring case; NULL, with an error that names all, if there is none.
plim_err settings_dialect_named(const char *name, const settings_dialect **out, plim_error *error);

enum { SETTINGS_MOST = 96 }; // at least as many as there are options

typedef struct {
  const job_args *args; // the request
  const settings_dialect *dialect;
  char *text;          // owned
  char *command;       // what starts it; NULL: nothing to say; owned
  plim_edit_set files; // other files that the text names
  const cli_option *left_out[SETTINGS_MOST];
  size_t left_out_count;
  job_args read; // what the text says, as options: what to send to plimsoll_estimate
  job_option_texts read_texts;
  bool is_read; // the text trains, so `read` is known
  plim_notes
      notes; // where the trainer's run is another than the one asked for, although nothing was asked there
  struct settings_reading *reading; // what `read` refers to; owned
} settings_result;

// On error, `*source` is the text that error->byte refers to, or NULL. Clear the result in any case.
plim_err settings_make(settings_result *s, const char **source, plim_error *error);
void settings_clear(settings_result *s);

// The answer as a JSON document, of a settings_result; and the list of the dialects.
void settings_write(json_writer *j, const void *result);
void settings_list_write(json_writer *j, const void *unused);

#endif
