#include "model.h"

#include <stdlib.h>

#include "wrapper.h"

#include "tape_names.h"

const char *const plim_checkpoint_names[PLIM_CHECKPOINT_KINDS + 1] = {
    [PLIM_CHECKPOINT_OFF] = "off",
    [PLIM_CHECKPOINT_ON] = "on",
    [PLIM_CHECKPOINT_REENTRANT] = "reentrant",
    [PLIM_CHECKPOINT_OFFLOADED] = "offloaded",
};

void *plim_model_new(size_t bytes, plim_model methods) {
  plim_model *m = calloc(1, bytes);
  if (m) *m = methods;
  return m;
}

void *plim_model_array(plim_model *m, int64_t count, size_t bytes) {
  void *array = calloc((size_t)count, bytes);
  if (array && vec_push(&m->arrays, array)) return array;
  free(array);
  m->failed = true;
  return NULL;
}

static plim_tensor *parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype,
                              plim_writer writer) {
  plim_tensor *p = NULL;
  plim_tape_written(t, writer);
  set(t, &p, empty(t, shape, dtype));
  p->requires_grad = true;
  m->elements += (uint64_t)plim_numel(&shape);
  if (!vec_push(&m->parameters, p)) m->failed = true;
  if (!vec_push(&m->names, (plim_parameter_name){p, NULL, "weight", m->spot})) m->failed = true;
  return p;
}

// A matrix is made of random numbers, a vector of ones or zeros.
plim_tensor *plim_model_parameter(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype) {
  return parameter(t, m, shape, dtype, shape.n > 1 ? PLIM_BY_RANDOM_KERNEL : PLIM_BY_KERNEL);
}

plim_tensor *plim_model_random(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype) {
  return parameter(t, m, shape, dtype, PLIM_BY_RANDOM_KERNEL);
}

plim_tensor *plim_model_table(plim_tape *t, plim_model *m, plim_dims shape, plim_dtype dtype,
                              bool has_padding_row) {
  m->table =
      parameter(t, m, shape, dtype, has_padding_row ? PLIM_BY_KERNEL : PLIM_BY_RANDOM_KERNEL);
  return m->table;
}

void plim_model_name(plim_model *m, const char *path, const char *end) {
  if (!m->names.len) return;
  plim_parameter_name *last = &m->names.at[m->names.len - 1];
  last->path = path;
  last->end = end;
}

plim_model *plim_model_finish(plim_model *m) {
  if (!m->failed) return m;
  plim_model_delete(m);
  return NULL;
}

bool plim_decays(const plim_tensor *p) {
  return p->decay == PLIM_DECAY_BY_SHAPE ? p->shape.n > 1 : p->decay == PLIM_DECAY_ALWAYS;
}

void plim_model_delete(plim_model *m) {
  if (!m) return;
  plim_shards_delete(m->shards);
  plim_model_delete(m->reference);
  for (size_t i = 0; i < m->arrays.len; i++) free(m->arrays.at[i]);
  vec_free(&m->arrays);
  vec_free(&m->parameters);
  vec_free(&m->frozen);
  vec_free(&m->cached);
  vec_free(&m->linear_names);
  vec_free(&m->names);
  vec_free(&m->buffer_bytes);
  free(m);
}
