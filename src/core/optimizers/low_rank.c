// GaLore (galore-torch 1.0) and APOLLO (apollo-torch 1.0.3): the gradients of some matrices are projected to a low rank, and
// the moments are those of the projection. GaLore projects on singular vectors, which it computes anew every 200 steps, and
// projects the update back; APOLLO projects on random vectors and scales the gradient. All other parameters get AdamW.
#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum { AVERAGE, SQUARE, NORM = 7 }; // its state, beside PROJECTION

// The columns of a matrix are projected, or its rows if there are fewer of them.
static bool is_tall(const plim_tensor *g) { return g->shape.at[0] >= g->shape.at[1]; }

static plim_tensor *times_transposed(plim_tape *t, const plim_tensor *a, plim_tensor *b) {
  plim_tensor *turned = k_transpose(t, b, 0, 1), *out = k_mm(t, a, turned);
  plim_consume(t, turned);
  return out;
}

static plim_tensor *transposed_times(plim_tape *t, plim_tensor *a, const plim_tensor *b) {
  plim_tensor *turned = k_transpose(t, a, 0, 1), *out = k_mm(t, turned, b);
  plim_consume(t, turned);
  return out;
}

// ---- the projection -----------------------------------------------------------------------------------

typedef struct {
  plim_tensor *u, *s, *v;
} factors;

// torch.linalg.svd(matrix, full_matrices=False) by cuSOLVER's gesvdj, which overwrites its argument. The size of its
// workspace is not documented.
static factors decompose(plim_tape *t, const plim_tensor *matrix) {
  int64_t m = matrix->shape.at[0], n = matrix->shape.at[1], k = m < n ? m : n;
  factors f = {0};
  set(t, &f.u, empty(t, dims(m, k), PLIM_FP32));
  set(t, &f.v, empty(t, dims(k, n), PLIM_FP32));
  set(t, &f.s, empty(t, dims(k), PLIM_FP32));
  plim_tensor *info = empty(t, (plim_dims){0}, PLIM_I32);
  plim_consume(t, empty(t, matrix->shape, PLIM_FP32));
  plim_tensor *flags = empty(t, (plim_dims){0}, PLIM_BOOL); // infos.any()
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  plim_consume(t, flags);
  plim_consume(t, info);
  return f;
}

// The first rows or columns of x: a copy in the type of the gradient. In float32 they are a view, which keeps all of x.
static plim_tensor *first_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dtype dtype) {
  return dtype == PLIM_FP32 ? alias_of(t, x, shape, x->stride) : empty(t, shape, dtype);
}

// get_orthogonal_matrix. It also computes the other factor, which it does not use.
static plim_tensor *singular_vectors(plim_tape *t, plim_tensor *grad, int64_t most) {
  int64_t m = grad->shape.at[0], n = grad->shape.at[1];
  plim_tensor *matrix = NULL, *other = NULL, *out = NULL;
  set(t, &matrix, k_to(t, grad, PLIM_FP32));
  factors f = decompose(t, matrix);
  int64_t rank = f.s->shape.at[0] < most ? f.s->shape.at[0] : most;
  plim_tensor *diagonal = empty(t, dims(rank, rank), PLIM_FP32);
  set(t, &other, empty(t, is_tall(grad) ? dims(m, rank) : dims(rank, n), PLIM_FP32));
  plim_consume(t, diagonal);
  if (is_tall(grad)) set(t, &out, first_of(t, f.v, dims(rank, n), (plim_dtype)grad->dtype));
  else set(t, &out, first_of(t, f.u, dims(m, rank), (plim_dtype)grad->dtype));
  drop_all(t, &matrix, &f.u, &f.s, &f.v, &other);
  return give(t, &out);
}

// GradientProjector.get_orthogonal_matrix: the gradient is only asked for its shape.
static plim_tensor *random_vectors(plim_tape *t, plim_tensor *grad, int64_t rank) {
  plim_dims shape = is_tall(grad) ? dims(rank, grad->shape.at[1]) : dims(grad->shape.at[0], rank);
  plim_tensor *matrix = NULL, *vectors = NULL;
  set(t, &matrix, k_to(t, grad, PLIM_FP32));
  plim_tensor *drawn = empty(t, shape, PLIM_FP32);
  set(t, &vectors, k_unary(t, drawn));
  plim_consume(t, drawn);
  set(t, &vectors, k_to(t, vectors, (plim_dtype)grad->dtype));
  drop(t, &matrix);
  return give(t, &vectors);
}

// projector.project(grad)
plim_tensor *plim_project(plim_tape *t, const plim_optimizer *o, plim_tensor *grad, int64_t rank,
                          plim_tensor **projection) {
  if (!*projection)
    set(t, projection,
        o->draws_projection ? random_vectors(t, grad, rank) : singular_vectors(t, grad, rank));
  return is_tall(grad) ? times_transposed(t, grad, *projection)
                       : transposed_times(t, *projection, grad);
}

// projector.project_back(update): full * scale
plim_tensor *plim_project_back(plim_tape *t, const plim_tensor *low,
                               const plim_tensor *projection) {
  plim_tensor *full = is_tall(low) ? k_mm(t, low, projection) : k_mm(t, projection, low);
  plim_tensor *out = k_unary(t, full);
  plim_consume(t, full);
  return out;
}

// ---- in AdamW -----------------------------------------------------------------------------------------

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *denominator, *update, *factor, *scaled, *norm;
} variables;

static plim_tensor *norm_over(plim_tape *t, const plim_tensor *x, bool by_channel) {
  uint32_t mask = !by_channel ? 3 : is_tall(x) ? 2 : 1;
  return k_sum(t, x, mask, false, (plim_dtype)x->dtype);
}

// norm(update) / (norm(grad) + 1e-8), of each row or column of the gradient, or of all
static plim_tensor *scaling(plim_tape *t, const plim_tensor *ratio, const plim_tensor *grad,
                            bool is_of_tall, bool by_channel) {
  uint32_t mask = !by_channel ? 3 : is_of_tall ? 2 : 1;
  plim_tensor *above = k_sum(t, ratio, mask, false, (plim_dtype)ratio->dtype);
  plim_tensor *norm = k_sum(t, grad, mask, false, (plim_dtype)grad->dtype);
  plim_tensor *below = k_unary(t, norm);
  plim_consume(t, norm);
  plim_tensor *out = k_unary(t, above);
  plim_consume(t, above);
  plim_consume(t, below);
  return out;
}

// The norm of the update may grow by a percent a step.
static void limit_growth(plim_tape *t, variables *v, plim_tensor **last) {
  plim_tensor *norm = norm_over(t, v->scaled, false);
  if (!*last) {
    set(t, last, norm);
    return;
  }
  set(t, &v->norm, norm);
  plim_tensor *before = k_unary(t, *last), *ratio = k_unary(t, v->norm);
  plim_consume(t, before);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL)); // max(ratio, 1.01)
  plim_consume(t, ratio);
  set(t, &v->scaled, k_unary(t, v->scaled));
  set(t, last, k_unary(t, v->norm));
}

static void scale_gradient(plim_tape *t, const plim_optimizer *o, const plim_tensor *p,
                           plim_tensor **state, variables *v) {
  bool by_channel = !o->scales_whole;
  set(t, &v->factor, scaling(t, v->update, v->grad, is_tall(p->grad), by_channel));
  set(t, &v->scaled, k_like(t, p->grad));
  limit_growth(t, v, &state[NORM]);
  set(t, &v->update, v->scaled);
}

static void step_one(plim_tape *t, const plim_optimizer *o, plim_tensor *p, plim_tensor **state,
                     variables *v) {
  set(t, &v->grad, p->grad);
  if (p->blocks) set(t, &v->grad, plim_project(t, o, v->grad, p->blocks, &state[PROJECTION]));
  if (!state[AVERAGE]) {
    set(t, &state[AVERAGE], k_like(t, v->grad));
    set(t, &state[SQUARE], k_like(t, v->grad));
  }
  set(t, &v->denominator, k_unary(t, state[SQUARE]));
  set(t, &v->update, k_unary(t, state[AVERAGE]));
  if (p->blocks && o->draws_projection) scale_gradient(t, o, p, state, v);
  else if (p->blocks) set(t, &v->update, plim_project_back(t, v->update, state[PROJECTION]));
}

void step_low_rank(plim_tape *t, const plim_optimizer *o, const update *u) {
  variables v = {0};
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) step_one(t, o, u->parameters[i], state_of(u, i), &v);
  update_one_by_one(t, u, 4, 10); // moments and the parameter; other kernels are recorded above
  drop_all(t, &v.grad, &v.denominator, &v.update, &v.factor, &v.scaled, &v.norm);
}

// ---- with bitsandbytes' kernels -----------------------------------------------------------------------

// GaLore's AdamW8bit gives the step a parameter of the projection's shape, whose value is the update. The parameter itself
// lives on in a copy, and its gradient is replaced by the projection.
void step_low_rank_8bit(plim_tape *t, const plim_optimizer *o, const update *u) {
  plim_tensor *grad = NULL, *saved = NULL, *low = NULL;
  for (size_t i = 0; i < u->count; i++) {
    plim_tensor *p = u->parameters[i], **state = state_of(u, i);
    if (!p->grad) continue;
    if (!p->blocks) {
      update_with_bitsandbytes(t, o, u, i, p);
      continue;
    }
    set(t, &grad, plim_project(t, o, p->grad, p->blocks, &state[PROJECTION]));
    plim_purpose was = plim_tape_purpose(t, PLIM_FOR_WEIGHTS);
    set(t, &saved, k_like(t, p));
    plim_tape_purpose(t, was);
    set(t, &low, k_like(t, grad));
    plim_set_data(t, p, saved); // the old one goes
    set(t, &p->grad, grad);
    update_with_bitsandbytes(t, o, u, i, low);
    plim_consume(t, plim_project_back(t, low, state[PROJECTION]));
    drop_all(t, &saved, &low);
  }
  drop(t, &grad);
  update_one_by_one(t, u, 1, 4);
}
