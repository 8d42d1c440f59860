// The pre-flight list: what stands in the way of a training run, found before it starts.
//
//   check c = {.environment = getenv, .root = ""};
//   check_look(&c);                                  // the machine and its cards
//   err = check_read(&c, files, count, &sets, &error);   // or not
//   if (!err) err = check_all(&c, &error);
//   c.findings.at[i]
//   check_clear(&c);
//
// A new check is one function and its row in the table of check.c. The command reads the system below
// PLIMSOLL_ROOT instead of / where that is set, and the cards through the library PLIMSOLL_NVML: for
// tests.
#ifndef PLIM_APP_CHECK_H
#define PLIM_APP_CHECK_H

#include "machine.h"
#include "nvml.h"
#include "project_job.h"

typedef enum { CHECK_OK, CHECK_NOTE, CHECK_WARNING, CHECK_FAILS, CHECK_SEVERITIES } check_severity;

typedef struct {
  const char *id; // "allocator.invalid": stays the same, for programs
  check_severity severity;
  char what[320]; // one line
  char why[480];  // why it matters; may be empty, as all below
  char fix[320];  // what to type
  char file[256]; // where
  int line;       // in it; 0: none
  char excerpt[96];
  int caret; // column of the excerpt, from 0; -1: there is no excerpt
} check_finding;

typedef struct {
  size_t card; // index into cards
  plim_card_process process;
  char name[64]; // empty: not visible from here
} check_process;

typedef struct check {
  // Where to look.
  const char *root;
  char *(*environment)(const char *name);
  const char *model, *gpu; // as typed; NULL: what the files say, what the machine has
  uint64_t world;          // GPUs; 0: as the files say

  // What was found there.
  plim_machine machine;
  plim_card cards[PLIM_MAX_CARDS];
  size_t card_count;
  size_t hidden_cards; // behind those, that the run does not see
  vec(check_process) processes;
  project_job files;
  bool trains; // the files do

  // What the files come to; 0 where it is not known.
  int64_t micro_batch, accumulate, ranks, effective_batch;
  bool has_estimate;
  job_args job;
  job_request request;
  plim_estimate estimate;
  plim_error no_estimate; // why there is none

  vec(check_finding) findings;
  bool has_no_memory; // some finding is lost,
  check_finding lost; // which was written here
} check;

void check_look(check *c);
plim_err check_read(check *c, const char *const *files, size_t count, const cli_strings *sets,
                    plim_error *error);
// The only error is that memory is out.
plim_err check_all(check *c, plim_error *error);
void check_clear(check *c);
size_t check_count(const check *c, check_severity severity);

// What it comes to. Whether a run fits is part of being ready: where that is not known, it is not.
typedef enum {
  CHECK_READY,
  CHECK_NOT_READY,   // something would fail
  CHECK_MAY_NOT_FIT, // as far as the files say it
  CHECK_NOT_CHECKED, // whether it fits; why_not says why
  CHECK_VERDICTS
} check_verdict;

check_verdict check_decide(const check *c, const char **why_not);

// ---- for checks -------------------------------------------------------------------------------------

// A new finding; it stays where it is until the next one.
check_finding *check_add(check *c, const char *id, check_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void check_why(check_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_fix(check_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The line of `text` that holds the byte, with a caret below it.
void check_show(check_finding *f, const char *text, size_t byte);

// A setting in one of the files.
typedef struct {
  const plim_project_file *file;
  const plim_setting *setting;
  plim_value value; // where it refers to another setting of the file, that one's
} check_place;

// By the end of its key, spelled as in key_names.h. What a command line says comes before files.
bool check_find(const check *c, const char *key, check_place *out);
// One that is on, unless a command line turns it off.
bool check_find_on(const check *c, const char *key, check_place *out);
// The first script whose code has a piece (python_code.h), and where; NULL: none has. `byte` may be NULL.
const plim_project_file *check_code(const check *c, const char *piece, size_t *byte);
void check_at_byte(check_finding *f, const plim_project_file *file, size_t byte);
void check_at(check_finding *f, const check_place *place);
void check_at_note(check_finding *f, const plim_note *note);
void check_at_line(check_finding *f, const char *file, int line);

// The card it is for: the one typed, or the first that is here; NULL: not known.
const plim_gpu *check_gpu(const check *c);
bool check_is_command(const plim_project_file *f); // a shell script, a Dockerfile
bool check_is_on(const plim_value *value);
bool check_is_known(plim_origin origin);
// Whether the files, or their ecosystem, say that a knob has this value.
bool check_says(const check *c, plim_knob knob, const char *value);
// The count that a knob has; 0 if it is not known, or beyond all reason.
int64_t check_number(const check *c, plim_knob knob);
int64_t check_product(int64_t a, int64_t b, int64_t c); // of counts; 0 if it overflows
int64_t check_world(const check *c);
int64_t check_local_world(const check *c); // GPUs on one machine
bool check_is_sharded(const check *c);     // the work is shared, or several processes do it
bool check_is_single(const check *c);      // one process trains, as far as it is known

// The checks themselves, by file.
void check_visible(check *c);
void check_cards(check *c);
void check_card_count(check *c);
void check_environment(check *c);
void check_memory(check *c);
void check_offload(check *c);
void check_locked(check *c);
void check_shared_memory(check *c);
void check_allocator(check *c);
void check_interrupted(check *c);
void check_recognised(check *c);
void check_batch(check *c);
void check_agreement(check *c);
void check_auto_batch(check *c);
void check_conflicts(check *c);
void check_launcher(check *c);
void check_files(check *c);
void check_idle(check *c);
void check_loading(check *c);
void check_shell(check *c);
void check_yaml(check *c);
void check_typos(check *c);
void check_readers(check *c);
void check_fit(check *c);
void check_precision(check *c);
void check_folder(check *c);

#endif
