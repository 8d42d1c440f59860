// The ways to show the pre-flight list.
#ifndef PLIM_CLI_CHECK_SHOW_H
#define PLIM_CLI_CHECK_SHOW_H

#include "check.h"

// One training that was checked, or could not be.
typedef struct {
  check of;
  const char *named; // its file; NULL: several, or none
  plim_error error;  // why it could not be checked
  bool has_failed;
  // With --each: a file that is not a training configuration and does not belong to a framework; or one about which the
  // user has to be asked, such as a Makefile that starts several trainings; `error` then has the question.
  bool is_passed_over;
} checked;

// Why a file was passed over.
const char *checked_why(const checked *x);

void check_print_text(const check *c);
void check_print_json(const check *c);
// With --each: the result of every file.
void check_print_each_text(const checked *all, size_t count);
void check_print_each_json(const checked *all, size_t count);
// Writes the findings as SARIF 2.1.0, the format in which code reviews show them.
plim_err check_write_sarif(const char *path, const checked *all, size_t count, plim_error *error);
bool check_is_sarif(const char *text, size_t size); // a file that it wrote

#endif
