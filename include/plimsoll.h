// Plimsoll: makes deep-learning training fit in GPU memory.
//
// The public C interface.
// Device bytes are uint64_t throughout. Unknown is a value of its own (PLIM_UNKNOWN), never 0.
#ifndef PLIMSOLL_H
#define PLIMSOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PLIM_VERSION "0.1.0"
#define PLIM_UNKNOWN UINT64_MAX // a byte count, address or limit that is not known
#define PLIM_MIB (1024ull * 1024)
#define PLIM_GIB (1024ull * PLIM_MIB)

// ---- errors ---------------------------------------------------------------------------------

typedef enum {
  PLIM_OK = 0,
  PLIM_ERR_NOMEM,      // the host ran out of memory
  PLIM_ERR_IO,         // a file could not be opened, read or written
  PLIM_ERR_PARSE,      // the input is not what it claims to be; `byte` says where
  PLIM_ERR_ARGUMENT,   // a setting or argument has a value that is not allowed
  PLIM_ERR_UNSUPPORTED // well formed, but something this program refuses or does not know
} plim_err;

// Filled by library calls that fail. Callers may pass NULL where they do not care.
typedef struct plim_error {
  plim_err code;
  char message[320]; // what is wrong, naming the value
  char hint[640];    // what to type or do next; empty if there is nothing to say
  char file[512];    // the file it is about; empty if none
  uint64_t byte;     // offset of the mistake in that file or text; PLIM_UNKNOWN if it has none
} plim_error;

// Fills *error (if not NULL) from a printf format, with no file, byte or hint, and returns `code`,
// so that a failing call reads `return plim_fail(error, PLIM_ERR_PARSE, "...")`.
plim_err plim_fail(plim_error *error, plim_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds the offending byte to *error; error may be NULL.
void plim_error_at(plim_error *error, uint64_t byte);

// Adds a hint to *error; error may be NULL.
void plim_error_hint(plim_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// ---- the library ----------------------------------------------------------------------------
//
// Requests and answers are JSON text in UTF-8. A request is an object whose members are the options of the command of
// the same name, as `plimsoll help estimate` lists them, with _ in place of -: flags are booleans, counts are numbers,
// sizes are numbers of bytes or texts such as "24GiB", options that may be repeated are arrays. An answer is the document
// that the command prints with --json; docs/c-interface.md lists the members that only the library has.
//
//   char *answer;
//   plim_error error;
//   if (plimsoll_estimate("{\"model\": \"qwen2.5-7b\", \"lora_rank\": 16, \"gpu\": \"4090\"}", &answer, &error)) {
//     fprintf(stderr, "error: %s\nhelp: %s\n", error.message, error.hint);
//     return 2;
//   }
//   puts(answer);
//   plimsoll_free(answer);
//
// All functions return PLIM_OK and set *answer to a text that the caller frees with plimsoll_free, or return an error,
// fill *error (which may be NULL) and set *answer to NULL. error->byte is an offset into the request if error->file is
// empty. No function prints, ends the program, keeps state between calls or writes a file, and the locale that the caller
// has set changes no answer. Any number of threads may call them at the same time.

#define PLIMSOLL_API __attribute__((visibility("default")))

// The version of the library, "0.1.0". Never freed.
PLIMSOLL_API const char *plimsoll_version(void);

// Predicts the memory of a training step. Besides the options of `plimsoll estimate` (without --fetch and the
// pictures), a request may have
//   "model": {...}    a config.json in place of its path
//   "timeline": 600   to get the step's memory over time in at most so many columns, as the member "timeline"
PLIMSOLL_API plim_err plimsoll_estimate(const char *request, char **answer, plim_error *error);

// Finds the fastest settings that fit. Besides the options of `plimsoll plan` (without --out, --prove and --fetch), a request may
// have
//   "model": {...}          as above
//   "files": ["train.yaml"] the user's files, which are read and not written
// In the answer, the user's settings ("before") and every row of "ladder" (the plan and its fallbacks) have a member
// "request": pass it to plimsoll_estimate to predict the same run.
//
//   plimsoll_plan("{\"files\": [\"train.yaml\"], \"gpu\": \"24GiB\"}", &answer, &error)
PLIMSOLL_API plim_err plimsoll_plan(const char *request, char **answer, plim_error *error);

// Says how a request of plimsoll_estimate is written for a trainer: {"dialect": "axolotl", ...} gives
// {"format_version": 1, "dialect": "axolotl", "format": "yaml", "file": "train.yaml", "text": "...", "left_out": [...]},
// where left_out names options for which that trainer has no setting. "request" describes what the text trains, as a
// request of plimsoll_estimate; "other_files" are files that it names; docs/c-interface.md lists the rest. Without
// "dialect", the answer lists the dialects.
PLIMSOLL_API plim_err plimsoll_settings(const char *request, char **answer, plim_error *error);

// Explains a memory snapshot: {"snapshot": "snapshot.pickle"} and the options of `plimsoll replay`.
PLIMSOLL_API plim_err plimsoll_replay(const char *request, char **answer, plim_error *error);

// What can be named: "models", "families", "gpus" or "knobs", as `plimsoll help models --json` lists them.
PLIMSOLL_API plim_err plimsoll_list(const char *what, char **answer, plim_error *error);

// Frees an answer; NULL is fine.
PLIMSOLL_API void plimsoll_free(char *answer);

// ---- a snapshot that is looked at more than once ----

typedef struct plimsoll_snapshot plimsoll_snapshot;

// Reads a snapshot: a request of plimsoll_replay. The caller closes it. One thread at a time may use a snapshot.
//
//   plimsoll_snapshot *s;
//   if (plimsoll_snapshot_open("{\"snapshot\": \"snapshot.pickle\"}", &s, &error)) ...
//   plimsoll_snapshot_report(s, &answer, &error);
//   plimsoll_snapshot_close(s);
PLIMSOLL_API plim_err plimsoll_snapshot_open(const char *request, plimsoll_snapshot **snapshot,
                                             plim_error *error);
// What plimsoll_replay answers.
PLIMSOLL_API plim_err plimsoll_snapshot_report(const plimsoll_snapshot *snapshot, char **answer,
                                               plim_error *error);
// Replays the recording with other settings, {"alloc_conf": "...", "limit": "24GiB", "tune": true}; later calls answer
// for these. {} goes back to the recorded settings. If memory runs out, later calls fail until a replay succeeds.
PLIMSOLL_API plim_err plimsoll_snapshot_replay(plimsoll_snapshot *snapshot, const char *request,
                                               plim_error *error);
// Memory over time: {"columns": 1200}; "from" and "to" select the events of a part ("to" is the first event that is left
// out). The answer has an array for each quantity, one number per column.
PLIMSOLL_API plim_err plimsoll_snapshot_timeline(const plimsoll_snapshot *snapshot,
                                                 const char *request, char **answer,
                                                 plim_error *error);
// Who holds the memory after so many events, {"event": 1234} ("event" of a timeline): lines of code, modules, fragmentation.
PLIMSOLL_API plim_err plimsoll_snapshot_moment(const plimsoll_snapshot *snapshot,
                                               const char *request, char **answer,
                                               plim_error *error);
PLIMSOLL_API void plimsoll_snapshot_close(plimsoll_snapshot *snapshot); // NULL is fine

#ifdef __cplusplus
}
#endif
#endif
