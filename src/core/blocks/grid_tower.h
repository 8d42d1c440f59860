// Towers that see an image as a grid of patches of any height and width, with rotary positions of both, and merge
// neighbours before they hand them to the language model. Several families have one.
#ifndef PLIM_CORE_GRID_TOWER_H
#define PLIM_CORE_GRID_TOWER_H

#include "towers.h"

// What differs among them.
typedef struct {
  bool has_patch_bias;
  bool has_position_table; // beside the rotary positions
  bool has_rms_norms;      // in place of LayerNorm, and an MLP with a gate
  bool
      has_taps; // layers whose output is merged, too, and added to early layers of the language model
  const char *up, *down; // the layers of an MLP without a gate
  const char *merger[2]; // the layers that merge
} plim_grid_tower_kind;

// `v` may differ from the one in the configuration: some families call its sizes by other names.
void plim_grid_tower_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind,
                         const plim_tower_config *v, int64_t merged_patches, plim_dtype dtype);

#endif
