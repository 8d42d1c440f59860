// Shared by the plain and the cached contrastive loss (contrastive.c and contrastive_cached.c).
#ifndef PLIM_CORE_CONTRASTIVE_IMPL_H
#define PLIM_CORE_CONTRASTIVE_IMPL_H

#include "contrastive.h"

// Variables of the function that compares some anchors with all other texts.
typedef struct {
  plim_tensor *local, *rows;      // indices of the anchors, and their numbers from 0
  plim_tensor *anchors, *matched; // the rows they select; matched is used only for other directions
  plim_tensor *scores, *positives, *all, *log_z;
} contrast_comparison;

// positive_scores - log_z for the anchors whose indices are in v->local.
plim_tensor *contrast_compare(plim_tape *t, contrast_comparison *v, plim_tensor *anchors,
                              plim_tensor *matched, plim_tensor *others);
void contrast_drop_comparison(plim_tape *t, contrast_comparison *v);
plim_tensor *contrast_positions(plim_tape *t, int64_t n); // arange(n)

// model(features): sets their hidden states and embedding.
void contrast_embed(plim_tape *t, const plim_contrast *c, plim_column *features);
void contrast_drop_column(plim_tape *t, plim_column *c);

plim_tensor *contrast_cached_loss(plim_tape *t, plim_contrast *c);

#endif
