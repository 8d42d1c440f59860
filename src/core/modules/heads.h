// Heads that return labels instead of logits over the vocabulary: one label for each text, for each token, for the ends
// of an answer, or for one of several texts.
#ifndef PLIM_CORE_HEADS_H
#define PLIM_CORE_HEADS_H

#include "modules.h"

typedef struct plim_label_head {
  const plim_config *c;
  plim_linear dense; // of a head that has a layer before its classifier
  plim_norm norm;    // behind that layer; or zero
  plim_linear classifier;
} plim_label_head;

// Whether this head returns labels.
bool plim_returns_labels(plim_head head);
// Whether this head takes the pooler's output, so that the encoder needs one.
bool plim_needs_pooler(const plim_config *c);

// Builds the head that c asks for, behind everything else; m->forward becomes plim_label_forward. `c` must outlive the
// model.
void plim_label_head_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype);
// Adds adapters to what is not trained as a whole.
void plim_label_head_lora(plim_tape *t, plim_model *m, const plim_lora *lora);
// Whether peft copies the head only after it has made the adapters float32.
bool plim_label_head_is_late(const plim_model *m);
// What peft does once all adapters exist: it trains a copy of the head.
void plim_label_head_save(plim_tape *t, plim_model *m);
// Visits its parameters, if there is such a head.
void plim_label_head_visit(const plim_model *m, plim_visit *visit, void *context);
// forward: the inner model, the head and its loss.
plim_tensor *plim_label_forward(plim_tape *t, plim_model *m, const plim_batch *batch,
                                plim_tensor **logits);

// The shape and dtype of the labels of `batch` examples of `length` tokens, for any model.
plim_dims plim_labels_shape(const plim_model *m, int64_t batch, int64_t length);
plim_dtype plim_labels_dtype(const plim_model *m);
// Whether labels are where an answer begins and where it ends.
bool plim_has_ends(const plim_model *m);
int64_t plim_texts_of_example(const plim_model *m);

#endif
