// Between the files of this folder.
#ifndef PLIM_APP_SIMULATE_IMPL_H
#define PLIM_APP_SIMULATE_IMPL_H

#include "card_record.h"
#include "injection.h"

// The file names of CUDA's libraries, of all versions that PyTorch's wheels ask for; ends with NULL.
extern const char *const simulate_library_names[];

// ---- simulate_time.c --------------------------------------------------------------------------------

// Zeros if nothing is known, or the card's rates are not.
simulate_step simulate_step_of(const plim_gpu *gpu, const card_work *work);

// ---- simulate_observed.c ----------------------------------------------------------------------------

void simulate_process_clear(simulate_process *process);

#endif
