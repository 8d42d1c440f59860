// Models that files describe by their shape, and not by a name: Megatron's flags, torchtune's builders of any
// size. Such a model is written as one text that `--model` takes too (model_config.h).
#ifndef PLIM_IO_PROJECT_SHAPE_H
#define PLIM_IO_PROJECT_SHAPE_H

#include "project.h"

enum { PLIM_SHAPE_BYTES = 512 };

typedef struct {
  bool is_there;               // the files describe a shape
  size_t file;                 // that does
  char text[PLIM_SHAPE_BYTES]; // "model_type=llama hidden_size=4096 ..."; empty: it is refused
  char origin[224];            // what was taken from where; or why it is refused
  char hint[160];              // of a refusal
} plim_shape;

void plim_shape_of_megatron(const plim_project *p, plim_shape *out);  // project_megatron.c
void plim_shape_of_torchtune(const plim_project *p, plim_shape *out); // project_shape.c

// For those: adds "key=value" to the text.
void plim_shape_add(plim_shape *s, const char *key, long long value);
void plim_shape_add_real(plim_shape *s, const char *key, double value);
// What is wrong with it, and what to type.
void plim_shape_refuse(plim_shape *s, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A whole number that a setting has, or that its file makes of it; false: none above 0.
bool plim_shape_number(const plim_project *p, size_t file, const plim_setting *setting,
                       long long *out);

#endif
