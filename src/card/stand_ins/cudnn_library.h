// The real cuDNN, where the program's environment has it. It plans without a card: a descriptor with the properties of
// one is set on heuristics and engines. Only convolutions are passed on; attention follows a formula.
#ifndef PLIM_CUDNN_LIBRARY_H
#define PLIM_CUDNN_LIBRARY_H

#include <stddef.h>

#include "cudnn_graph.h"

// Opens the library when it is first asked for: the file that $PLIMSOLL_CUDNN names, or the one installed with PyTorch.
// False if there is none or it cannot plan for this card.
bool cudnn_library_is_usable(void);

size_t cudnn_library_version(void); // as cudnnGetVersion has it; 0 without a usable library

// Creates, fills and finalizes the equivalent of a descriptor and of what it refers to. Returns the library's status.
int cudnn_library_repeat(cudnn_descriptor *d);

// Reads an attribute of a repeated descriptor. Descriptors among the values are filled with the library's answers.
int cudnn_library_get(cudnn_descriptor *d, int name, int type, int64_t wanted, int64_t *count,
                      void *values);

void cudnn_library_destroy(void *real); // NULL is fine

// Forgets the library, so that it is looked for again: for tests.
void cudnn_library_close(void);

#endif
