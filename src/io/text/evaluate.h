// What files compute from numbers and names: Python's expressions, shell arithmetic, OmegaConf's
// environment with a default.
//
//   plim_value v;
//   if (plim_evaluate("GLOBAL / MICRO / 4", &(plim_evaluator){value_of, &file, true}, &v)) v.integer
#ifndef PLIM_IO_EVALUATE_H
#define PLIM_IO_EVALUATE_H

#include "value.h"

enum { PLIM_ENVIRONMENT_BYTES = 64 };
enum { PLIM_EVALUATE_STEPS = 512 }; // names and numbers that are looked at for one value

typedef struct {
  // The value of a name: "$GLOBAL" in a shell; in Python with dots, CONFIG["lr"] as CONFIG.lr, and
  // os.environ.NAME. False: it is unknown. NULL: none is.
  bool (*value_of)(void *context, const char *name, plim_value *out);
  void *context;
  bool is_shell; // "/" leaves no fraction, and names are variables
  int *steps; // left, over all that is looked up on the way; NULL: PLIM_EVALUATE_STEPS for this one
  char *
      environment; // gets the last variable whose default was taken; NULL, or PLIM_ENVIRONMENT_BYTES
} plim_evaluator;

// The number that `text` computes, INTEGER or REAL; false if it is anything else, or unknown.
bool plim_evaluate(const char *text, const plim_evaluator *by, plim_value *out);

// The number that a literal is, a text included; false if it is none.
bool plim_literal_number(const plim_value *value, plim_value *out);

#endif
