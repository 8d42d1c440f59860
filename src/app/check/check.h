// Checks a training run before it starts: finds what would make it fail.
//
//   check c = {.environment = getenv, .root = ""};
//   check_look(&c);                                  // the machine and its cards
//   err = check_read(&c, &input, &error);               // optional
//   if (!err) err = check_all(&c, &error);
//   c.findings.at[i]
//   check_clear(&c);
//
// A new check is one function and its row in the table of check.c. For tests, PLIMSOLL_ROOT replaces / as
// the root of the system's files, and PLIMSOLL_NVML names the library through which cards are read.
#ifndef PLIM_APP_CHECK_H
#define PLIM_APP_CHECK_H

#include "machine.h"
#include "nvml.h"
#include "project_job.h"

typedef enum { CHECK_OK, CHECK_NOTE, CHECK_WARNING, CHECK_FAILS, CHECK_SEVERITIES } check_severity;

struct check;

typedef struct {
  const char *id; // "allocator.invalid": stable, for programs
  check_severity severity;
  const char *what; // one line; this and the other texts belong to the check
  const char *why;  // why it matters; this and all below may be empty
  const char *fix;  // what to type
  const char *file; // the file it is in
  int line;         // 0: none
  // The place in the line, in characters from 1, and in the file, in bytes; column 0: not known. It has no end if
  // byte_count is 0.
  int column, end_column;
  size_t byte, byte_count;
  struct check *owner; // has the texts
  char excerpt[96];
  int caret; // column of the excerpt, from 0; -1: there is no excerpt
} check_finding;

typedef struct {
  size_t card; // index into cards
  plim_card_process process;
  char name[64]; // empty: the process is not visible from here
} check_process;

typedef struct check {
  // Where to look.
  const char *root;
  char *(*environment)(const char *name);
  const char *command;     // as typed; NULL: none
  const char *model, *gpu; // as typed; NULL: the model in the files, the card in this machine
  uint64_t world;          // number of GPUs; 0: the number in the files
  bool may_fetch;          // job_args
  bool is_elsewhere; // the run is for another machine: this one and its environment are not checked

  // What was found there.
  plim_machine machine;
  plim_nvml_state driver;
  plim_card cards[PLIM_MAX_CARDS];
  size_t card_count;
  size_t hidden_cards; // cards after those, which the run does not see
  vec(check_process) processes;
  project_job files;
  const cli_strings *sets; // as typed; NULL: none
  bool trains;             // the files are a training configuration

  // What follows from the files; 0: not known.
  int64_t micro_batch, accumulate, ranks, effective_batch;
  bool has_estimate;
  job_args job;
  job_request request;
  plim_estimate estimate;
  plim_error no_estimate; // why there is none
  char fit[192]; // in a few words, for the verdict; empty: not known, or there is nothing to say
  // "plimsoll does not understand the value of bf16 (train.yaml:3)", for the verdict; empty: every value in force is clear
  char unread[256];

  vec(check_finding) findings;
  vec(char *) texts; // of the findings
  plim_line_counter lines;
  bool has_no_memory; // memory ran out, and a finding is lost
  check_finding lost; // check_add returns this one instead
} check;

void check_look(check *c);
plim_err check_read(check *c, const project_input *in, plim_error *error);
// The files that a command line names, and the command line itself. `words` ends with NULL.
plim_err check_read_command(check *c, const char *const *words, const cli_strings *sets,
                            plim_error *error);
// Fails only if memory runs out.
plim_err check_all(check *c, plim_error *error);
void check_clear(check *c);
size_t check_count(const check *c, check_severity severity);
bool check_has(const check *c, const char *id, check_severity severity);

// The kinds of findings, sorted by id; the list ends with {0}.
typedef struct {
  const char *id, *what; // what it is about, one sentence without a full stop
} check_rule;
extern const check_rule check_rules[];
// The index of a finding's kind; that of the end if the list does not have it.
size_t check_rule_of(const char *id);

// The overall result. A run is ready only if it is known to fit.
typedef enum {
  CHECK_READY,
  CHECK_NOT_READY,   // something would fail
  CHECK_MAY_NOT_FIT, // it does not fit with what was assumed, or is within the error margin
  CHECK_NOT_CHECKED, // it is not known whether it fits; why_not has the reason
  CHECK_VERDICTS
} check_verdict;

check_verdict check_decide(const check *c, const char **why_not);

// ---- for checks -------------------------------------------------------------------------------------

// Adds a finding; the pointer is valid until the next one is added.
check_finding *check_add(check *c, const char *id, check_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void check_why(check_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_fix(check_finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Hands a text over to the check, which frees it. NULL means that memory has run out; then the result is "".
const char *check_keep(check *c, char *text);
// "plimsoll plan train.py --gpu "24GiB"": plans what is checked, with the files and options that were typed. Valid as long
// as the check (check_command.c).
const char *check_plan_command(check *c);
// Shows the line of `text` that contains the byte, with a caret below it.
void check_show(check_finding *f, const char *text, size_t byte);

// A setting in one of the files.
typedef struct {
  const plim_project_file *file;
  const plim_setting *setting;
  plim_value value; // its value; if it refers to another setting of the file, that one's
} check_place;

// Finds a setting by the end of its key, spelled as in key_names.h. Command lines take precedence over files.
bool check_find(const check *c, const char *key, check_place *out);
// Finds a setting that is on, unless a command line turns it off.
bool check_find_on(const check *c, const char *key, check_place *out);
// The first script that contains a piece of code (python_code.h), and its position; NULL: none. `byte` may be NULL.
const plim_project_file *check_code(const check *c, const char *piece, size_t *byte);
void check_at_byte(check_finding *f, const plim_project_file *file, size_t byte);
void check_at(check_finding *f, const check_place *place);
void check_at_note(check_finding *f, const plim_note *note);
void check_at_line(check_finding *f, const char *file, int line);
// "launch.sh:3", or what to say if there is no place.
void check_print_place(const check_place *place, const char *otherwise, char *text, size_t size);
// The fix for a run that starts more processes than there are GPUs on a machine, in the words of its launcher.
void check_fix_processes(const check *c, check_finding *f, const char *before, int64_t started,
                         int64_t gpus);

// The card to check for: the one typed, or the first one in this machine; NULL: not known.
const plim_gpu *check_gpu(const check *c);
bool check_is_command(const plim_project_file *f); // a shell script, a Dockerfile
bool check_is_on(const plim_value *value);
bool check_is_known(plim_origin origin);
// Whether a knob has this value, set in the files or by default of the ecosystem.
bool check_says(const check *c, plim_knob knob, const char *value);
// The count of a knob; 0 if it is not known or implausibly large.
int64_t check_number(const check *c, plim_knob knob);
int64_t check_product(int64_t a, int64_t b, int64_t c); // product of counts; 0 if it overflows
int64_t check_world(const check *c);
int64_t check_local_world(const check *c); // GPUs on one machine
bool check_is_sharded(const check *c);     // the model is sharded, or several processes train it
bool check_is_single(const check *c);      // one process trains, as far as is known

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
void check_values(check *c);
void check_typos(check *c);
void check_readers(check *c);
void check_fit(check *c);
void check_precision(check *c);
void check_folder(check *c);

#endif
