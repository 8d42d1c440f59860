// Finds the parts of a Dockerfile that take effect in the image: the last stage, the stages that it is built FROM, and
// the last CMD and ENTRYPOINT.
#ifndef PLIM_IO_DOCKER_STAGES_H
#define PLIM_IO_DOCKER_STAGES_H

#include "dockerfile.h"

typedef struct {
  size_t begin;          // the first byte of its FROM
  plim_bytes name, base; // AS name, FROM base, in lower case
  size_t cmd, entry;     // the first byte of its last CMD and ENTRYPOINT; SIZE_MAX: it has none
  bool is_in_force;
} plim_docker_stage;

typedef struct {
  vec(plim_docker_stage) at;
  size_t cmd, entry; // the CMD and ENTRYPOINT that take effect; SIZE_MAX: there is none
} plim_docker_stages;

// Returns false when out of memory. The caller frees `out` in both cases.
bool plim_docker_stages_find(const char *text, size_t size, plim_docker_stages *out);
void plim_docker_stages_free(plim_docker_stages *stages);

// Whether the instruction that was read last takes effect.
bool plim_docker_in_force(const plim_docker_stages *stages, const plim_docker *d);

#endif
