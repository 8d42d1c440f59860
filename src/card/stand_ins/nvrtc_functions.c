// nvrtc: PyTorch compiles some kernels at run time. A program has no code; its kernel does nothing, like all others.
#include "card.h"

STAND_IN int nvrtcVersion(int *major, int *minor) {
  *major = card_cuda_version() / 1000;
  *minor = card_cuda_version() / 10 % 100;
  return CARD_OK;
}

STAND_IN int nvrtcCreateProgram(void **program) {
  *program = card_handle();
  return CARD_OK;
}

static int one_byte(size_t *bytes) {
  *bytes = 1;
  return CARD_OK;
}
STAND_IN int nvrtcGetPTXSize(void *program, size_t *bytes) {
  return (void)program, one_byte(bytes);
}
STAND_IN int nvrtcGetCUBINSize(void *program, size_t *bytes) {
  return (void)program, one_byte(bytes);
}
STAND_IN int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
  return (void)program, one_byte(bytes);
}

static int empty(char *out) {
  *out = 0;
  return CARD_OK;
}
STAND_IN int nvrtcGetPTX(void *program, char *out) { return (void)program, empty(out); }
STAND_IN int nvrtcGetCUBIN(void *program, char *out) { return (void)program, empty(out); }
STAND_IN int nvrtcGetProgramLog(void *program, char *out) { return (void)program, empty(out); }

STAND_IN int nvrtcGetLoweredName(void *program, const char *name, const char **out) {
  (void)program;
  *out = name;
  return CARD_OK;
}

STAND_IN const char *nvrtcGetErrorString(int code) { return code ? "error" : "success"; }
