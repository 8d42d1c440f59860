// The variables of a Makefile, and text with references to them.
#ifndef PLIM_IO_MAKE_VARIABLES_H
#define PLIM_IO_MAKE_VARIABLES_H

#include "launch_parts.h"

typedef struct {
  char *name;
  plim_sourced value;
  int line;                          // of its last assignment
  int assignments;                   // how often it is set
  bool is_simple;                    // the value was expanded when it was assigned
  bool is_unclear;                   // what sets it is not followed
  bool is_fixed;                     // by override
  bool is_exported, is_set, is_open; // is_open: it is being expanded
} plim_make_variable;

typedef struct {
  const char *text;
  size_t size;
  vec(plim_make_variable) variables;
  bool doubts_all; // $(eval) or a computed name may set any of them
  bool exports_all;
  bool is_out;
} plim_make_variables;

// What the automatic variables stand for in a recipe.
typedef struct {
  const char *target; // NULL: not known
  const plim_sourced *prerequisites;
} plim_make_place;

typedef enum {
  PLIM_MAKE_LATE,       // =
  PLIM_MAKE_NOW,        // :=
  PLIM_MAKE_UNLESS_SET, // ?=
  PLIM_MAKE_MORE,       // +=
  PLIM_MAKE_UNKNOWN     // !=, :::=, or under a condition
} plim_make_how;

// Adds the variable if it is not there. NULL when out of memory. It is valid until the next one is added.
plim_make_variable *plim_make_variable_of(plim_make_variables *m, const char *name, size_t size);
void plim_make_assign(plim_make_variables *m, const char *name, size_t size, plim_make_how how,
                      const plim_sourced *value, int line);
void plim_make_doubt_all(plim_make_variables *m); // the variables that are set so far
void plim_make_expand(plim_make_variables *m, const plim_make_place *place,
                      const plim_sourced *text, size_t begin, size_t end, plim_sourced *out);
// Writes the exported variables as `export NAME='value'`, each in the line that assigns it or, if that is behind `last`,
// in that line.
void plim_make_export(plim_make_variables *m, int last, plim_sourced *script);
void plim_make_variables_clear(plim_make_variables *m);

#endif
