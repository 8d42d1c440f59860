// How errors and exits look. Only the command line prints or exits.
#ifndef PLIM_CLI_REPORT_H
#define PLIM_CLI_REPORT_H

#include <stdio.h>

#include "plimsoll.h"

enum {
  CLI_OK = 0,      // done, or it fits
  CLI_FINDING = 1, // done, and there is something to act on: it does not fit, it leaks
  CLI_ERROR = 2,   // wrong usage, or the command failed
};

// Call it with the value of --json; from then on, errors are also printed as a JSON document on stdout.
void cli_report_as_json(bool json);

// Reports an error on stderr and returns CLI_ERROR. `source` is the text that error->byte points
// into, to show the line with a caret; NULL for binary files and where there is no text. To be
// called before anything of the result is printed, so that JSON stays one document.
//
//   error: max_split_size_mb is 8, the smallest allowed is 20
//     --> train.sh:3, byte 61
//      |  export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8
//      |                                                   ^
//   help: max_split_size_mb:128
int cli_report(const plim_error *error, const char *source);

// The same text, to any stream.
void cli_report_text(FILE *out, const plim_error *error, const char *source);

// Reports what a printf format says, in the same form.
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// To be called last: flushes stdout and returns `status`, or CLI_ERROR with a message if not all
// output could be written. A reader that left early (| head) is no error.
int cli_finish_output(int status);

#endif
