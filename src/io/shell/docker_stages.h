// What of a Dockerfile is in force in the image it builds: its last stage, those that this one is built
// FROM, and of each CMD and ENTRYPOINT the last.
#ifndef PLIM_IO_DOCKER_STAGES_H
#define PLIM_IO_DOCKER_STAGES_H

#include "dockerfile.h"

typedef struct {
  size_t begin;          // the first byte of its FROM
  plim_bytes name, base; // AS name, FROM base, in small letters
  size_t cmd, entry;     // the first byte of the last of each; SIZE_MAX: it has none
  bool is_in_force;
} plim_docker_stage;

typedef struct {
  vec(plim_docker_stage) at;
  size_t cmd, entry; // those that are in force; SIZE_MAX: there is none
} plim_docker_stages;

// False when out of memory; the caller frees it, then too.
bool plim_docker_stages_find(const char *text, size_t size, plim_docker_stages *out);
void plim_docker_stages_free(plim_docker_stages *stages);

// Whether the instruction that was read last is.
bool plim_docker_in_force(const plim_docker_stages *stages, const plim_docker *d);

#endif
