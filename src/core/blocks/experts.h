// Mixtures of experts in place of the MLP: a router gives each token to a few experts, whose matrices are stacked.
#ifndef PLIM_CORE_EXPERTS_H
#define PLIM_CORE_EXPERTS_H

#include "expert_lora.h"
#include "family.h"
#include "modules.h"

// Members that a family does not have are NULL or zero.
typedef struct {
  const plim_mixture *kind;              // NULL: this layer has no mixture
  const plim_config *c;                  // of the model
  plim_tensor *router, *router_bias;     // (E,h), (E)
  plim_tensor *gate_up, *down;           // of all experts: (E,2i,h) and (E,h,i)
  plim_tensor *gate_up_bias, *down_bias; // (E,2i) and (E,h)
  plim_tensor *correction; // (E): a buffer that is added to the scores by which experts are chosen
  plim_linear shared_gate, shared_up, shared_down; // experts that see every token
  plim_linear shared_share;                        // (1,h): how much they count
  plim_linear latent_in, latent_out;               // (l,h) and (h,l): around routed experts
  plim_linear *gates, *ups, *downs; // in place of gate_up and down: linear layers of each expert
  plim_linear *listed; // in place of all these, before transformers 5.0 (listed_experts.h)
  plim_expert_lora router_lora, gate_up_lora, down_lora;
} plim_experts;

// What a router returns: variables of the mixture's forward.
typedef struct {
  plim_tensor *logits, *shares, *chosen; // shares: how much each chosen expert counts for a token
  plim_merge merge;
} plim_routing;

typedef void plim_route_fn(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r);

// The code of a family's mixture. A family's row refers to it.
struct plim_mixture {
  plim_route_fn *route;
  // The whole mixture; NULL: router, then experts.
  plim_tensor *(*forward)(plim_tape *t, const plim_experts *e, plim_tensor *x);
  plim_tensor *(*gate)(plim_tape *t, plim_tensor *both); // NULL: act(gate) * up, one half each
  const char *shared_share; // path of the shared experts' own gate; NULL: they count in full
  const char *shared[3];    // paths of the shared experts' gate, up and down in a layer
  const char *latent
      [2]; // paths of the projections before and behind routed experts, where they have an input of their own
  bool has_no_gate; // experts are down(act(up(x))); gate_up is (E,i,h)
  bool
      has_correction; // of the router's scores; float32 if it is loaded (_keep_in_fp32_modules_strict)
  bool has_wide_correction; // always float32
  bool corrects_last; // the correction is the mixture's own, in its dtype, built after the experts
  bool is_built_last; // after the layer's norms
  bool is_stored_whole;     // checkpoints have the stacked matrices
  bool is_transposed;       // matrices are stacked as (E,in,out)
  bool has_biases;          // of router and experts, whose matrices are stacked as (E,in,out)
  bool builds_router_first; // its parameters come before those of the experts
  // Paths by which peft knows router, gate, up and down (transformers_weight_conversion.py); NULL: it does not.
  const char *const *former;
  // Called by a name that comes before those of the norms, as Mixtral's block_sparse_moe.
  bool is_named_first;
  bool is_block_sparse_moe; // called so in checkpoints, where its experts have w1, w2 and w3
};

// Of the families whose checkpoints have mlp.gate and mlp.experts.N.gate_proj.
extern const char *const plim_former_experts[4];

// The mixture of one layer, with its parameters in the order of the family's constructor.
plim_experts plim_experts_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype);
// Some return the experts' shares too: `shares` is a variable, or NULL.
plim_tensor *plim_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x,
                                  plim_tensor **shares);
// Visits the parameters in the order in which a checkpoint is loaded.
void plim_experts_visit(const plim_experts *e, plim_visit *visit, void *context);
// Loads `stack` if it is one that the checkpoint has as separate matrices of each expert, which are stacked on the
// device. Returns false if it is not.
bool plim_experts_assemble(plim_tape *t, plim_model *m, const plim_experts *e, plim_tensor *stack);
// Router and experts used to be linear layers. peft still adapts them if they are targets under their former names, and
// "all-linear" includes them; other layers with these names, those of shared experts and dense layers, get no adapter
// then. Two are stacked in gate_up, which gets twice the rank.
void plim_experts_add_lora(plim_tape *t, plim_model *m, plim_experts *e, const plim_lora *lora);
bool plim_experts_are_targets(const plim_config *c, const plim_lora *lora);
// The ranks of the adapters on gate_up and down; 0: none.
void plim_experts_ranks(const plim_config *c, const plim_lora *lora, int64_t *gate_up,
                        int64_t *down);
bool plim_experts_split_target(const plim_config *c,
                               const plim_lora *lora); // gate without up, or up without gate

// Router, experts, and what the shared experts add.
plim_tensor *plim_experts_then_shared(plim_tape *t, const plim_experts *e, plim_tensor *x);
// Shared experts, router, experts, and the sum, in which a gate scales what the shared experts add.
plim_tensor *plim_experts_gated_shared(plim_tape *t, const plim_experts *e, plim_tensor *x);

// The parts of a mixture's forward: the router, and the experts of rows (T,h), whose result is one row for each.
void plim_experts_route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r);
plim_tensor *plim_experts_run(plim_tape *t, const plim_experts *e, plim_tensor *rows,
                              plim_tensor *shares, plim_tensor *chosen);

// The router's weight, with its adapter, for a plim_route_fn.
plim_tensor *plim_router_weight(plim_tape *t, const plim_experts *e, plim_routing *r);
// Softmax over all experts in float32, then the best. Mixtral's shares always add up to one and stay float32.
plim_route_fn plim_route_softmax, plim_route_mixtral;
// Sigmoid of all experts in float32; the best of the best groups.
plim_route_fn plim_route_groups;
// Softmax of all experts; the best of the best groups.
plim_route_fn plim_route_softmax_groups;
// Sigmoid in float32, and a correction of what is chosen, without groups.
plim_route_fn plim_route_sigmoid;
// Softmax of all experts in float32; the best, which may have to be in the best groups.
plim_route_fn plim_route_deepseek_v2;
// The best experts, then softmax over those; the second in float32.
plim_route_fn plim_route_best, plim_route_best_widely;

#endif
