#include "grid_tower.h"

#include "rope.h"

#include "op_names.h"

static const char blocks[] = "model.visual.blocks";

static void norm_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind, int64_t width,
                     plim_dtype d) {
  if (kind->has_rms_norms) plim_model_parameter(t, w->model, dims(width), d);
  else plim_norm_new(t, w->model, width, d);
}

static void mlp_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind,
                    const plim_tower_config *v, int64_t i, plim_dtype d) {
  int64_t h = v->hidden, wide = v->intermediate;
  if (kind->has_rms_norms) {
    plim_tower_linear_new(t, w, blocks, i, "mlp.gate_proj", dims(wide, h), true, d);
    plim_tower_linear_new(t, w, blocks, i, "mlp.up_proj", dims(wide, h), true, d);
    plim_tower_linear_new(t, w, blocks, i, "mlp.down_proj", dims(h, wide), true, d);
  } else {
    plim_tower_linear_new(t, w, blocks, i, kind->up, dims(wide, h), true, d);
    plim_tower_linear_new(t, w, blocks, i, kind->down, dims(h, wide), true, d);
  }
}

static void block_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind,
                      const plim_tower_config *v, int64_t i, plim_dtype d) {
  int64_t h = v->hidden;
  norm_new(t, w, kind, h, d);
  norm_new(t, w, kind, h, d);
  plim_tower_linear_new(t, w, blocks, i, "attn.qkv", dims(3 * h, h), true, d);
  plim_tower_linear_new(t, w, blocks, i, "attn.proj", dims(h, h), true, d);
  mlp_new(t, w, kind, v, i, d);
}

// `normed` is the width of its norm: that of one patch, or of all that are merged.
static void merger_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind,
                       const char *place, int64_t index, plim_dims normed_merged_out,
                       plim_dtype d) {
  int64_t merged = normed_merged_out.at[1], out = normed_merged_out.at[2];
  norm_new(t, w, kind, normed_merged_out.at[0], d);
  plim_tower_linear_new(t, w, place, index, kind->merger[0], dims(merged, merged), true, d);
  plim_tower_linear_new(t, w, place, index, kind->merger[1], dims(out, merged), true, d);
}

void plim_grid_tower_new(plim_tape *t, plim_towers *w, const plim_grid_tower_kind *kind,
                         const plim_tower_config *v, int64_t merged_patches, plim_dtype d) {
  int64_t h = v->hidden, p = v->patch_size, merged = h * merged_patches * merged_patches;
  plim_rope_buffers rope = {0};
  plim_tensor *again = NULL;
  plim_model_parameter(t, w->model, dims(h, v->channels, v->frames, p, p), d);
  if (kind->has_patch_bias) plim_model_parameter(t, w->model, dims(h), d);
  if (kind->has_position_table) plim_model_parameter(t, w->model, dims(v->positions, h), d);
  plim_rope_new(t, PLIM_ROPE_DEFAULT, h / v->heads / 2, &rope);
  for (int64_t i = 0; i < v->layers; i++) block_new(t, w, kind, v, i, d);
  merger_new(t, w, kind, "model.visual.merger", -1, dims(h, merged, v->output), d);
  for (int64_t i = 0; kind->has_taps && i < v->taps; i++)
    merger_new(t, w, kind, "model.visual.deepstack_merger_list", i, dims(merged, merged, v->output),
               d);
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &rope, &again);
  drop(t, &again);
}
