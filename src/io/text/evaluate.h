// Evaluates the arithmetic that files contain: Python expressions, shell arithmetic, and OmegaConf's environment
// variables with a default.
//
//   plim_value v;
//   if (plim_evaluate("GLOBAL / MICRO / 4", &(plim_evaluator){value_of, &file, true}, &v)) v.integer
#ifndef PLIM_IO_EVALUATE_H
#define PLIM_IO_EVALUATE_H

#include "value.h"

enum { PLIM_ENVIRONMENT_BYTES = 64 };
enum { PLIM_EVALUATE_STEPS = 512 }; // how many names and numbers are evaluated for one value

typedef struct {
  // Looks up the value of a name: "$GLOBAL" in a shell; a dotted name in Python, with CONFIG["lr"] as CONFIG.lr, and
  // os.environ.NAME. Returns false if the value is unknown. NULL if no name has a known value.
  bool (*value_of)(void *context, const char *name, plim_value *out);
  void *context;
  bool is_shell; // "/" is integer division, and names are shell variables
  int *steps;    // steps left, shared by all lookups; NULL: PLIM_EVALUATE_STEPS for this call alone
  char *
      environment; // receives the last variable that fell back to its default; NULL, or PLIM_ENVIRONMENT_BYTES
} plim_evaluator;

// Computes the number that `text` evaluates to, INTEGER or REAL. Returns false if the result is unknown or not a number.
bool plim_evaluate(const char *text, const plim_evaluator *by, plim_value *out);

// Converts a literal, or a text that contains one, to a number. Returns false if it is not a number.
bool plim_literal_number(const plim_value *value, plim_value *out);

#endif
