// Training of a part of a model: the parameters that are trained are given by their names.
#ifndef PLIM_CORE_TRAINED_H
#define PLIM_CORE_TRAINED_H

#include "config.h"
#include "model.h"

// What is trained. Not owned.
typedef struct {
  // Expressions of Python, separated by blanks; a parameter is trained if one occurs in its name. NULL: all are trained.
  const char *names;
  bool is_widened; // trained parameters become float32
} plim_trained;

// Freezes the parameters of which none of the expressions occurs in the name, and widens the others if asked to.
void plim_train_named(plim_tape *t, plim_model *m, const plim_trained *which);

// Whether one of the expressions occurs in the name of a parameter. False if the name is not known.
bool plim_parameter_is_named(const plim_model *m, const plim_parameter_name *n,
                             const char *patterns);

// Whether a layer, counted from 0, has a trained parameter.
bool plim_layer_is_trained(const plim_model *m, int64_t layer);

// Which parameters the expressions name.
typedef struct {
  bool has_names;   // the names of the parameters are known for this architecture
  uint64_t trained; // elements
  uint64_t elements;
  char unmatched[128]; // the first expression that no name fits, and how many there are
  int unmatched_count;
} plim_trained_count;

plim_err plim_trained_check(const plim_config *c, const plim_trained *which,
                            plim_trained_count *out, plim_error *error);

#endif
