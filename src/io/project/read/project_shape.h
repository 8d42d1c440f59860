// Models that are described by their shape instead of a name: Megatron's flags and torchtune's generic
// builders. Such a model is written as one text that `--model` also accepts (model_config.h).
#ifndef PLIM_IO_PROJECT_SHAPE_H
#define PLIM_IO_PROJECT_SHAPE_H

#include "project.h"

enum { PLIM_SHAPE_BYTES = 512 };

typedef struct {
  bool is_there;               // the files describe a shape
  size_t file;                 // the file that describes it
  char text[PLIM_SHAPE_BYTES]; // "model_type=llama hidden_size=4096 ..."; empty: refused
  char origin[224];            // where the shape comes from; or why it is refused
  char hint[160];              // what to do if it is refused
} plim_shape;

void plim_shape_of_megatron(const plim_project *p, plim_shape *out);  // project_megatron.c
void plim_shape_of_torchtune(const plim_project *p, plim_shape *out); // project_shape.c

// Adds "key=value" to the text.
void plim_shape_add(plim_shape *s, const char *key, long long value);
void plim_shape_add_real(plim_shape *s, const char *key, double value);
// Refuses the shape: the reason, and what to type.
void plim_shape_refuse(plim_shape *s, const char *hint, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Reads a setting, or the expression it is set to, as a whole number above 0; false: it is not one.
bool plim_shape_number(const plim_project *p, size_t file, const plim_setting *setting,
                       long long *out);

#endif
