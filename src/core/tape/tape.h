// The tape: a miniature of PyTorch's eager engine. Tensors have shape, strides, dtype, a reference
// count and an autograd node, and no data; operators allocate what PyTorch's allocate, in its order.
// What comes out is the stream of allocations and frees.
//
// Lifetimes are Python's. An operator's result is *floating*, as a temporary is on Python's stack:
// the next operator that takes it as an argument lets it go when done. A variable keeps it:
//
//   plim_tensor *y = NULL;
//   set(t, &y, linear(t, silu(t, x), w));   // silu's result dies when linear is done
//   drop(t, &y);
//
// Rebinding a variable releases its old value after the new one exists. Arguments of one call must
// not contain two calls: C does not say which comes first.
#ifndef PLIM_CORE_TAPE_H
#define PLIM_CORE_TAPE_H

#include "gpu.h"
#include "vec.h"

#define PLIM_MAX_DIMS 5

typedef enum {
  PLIM_BOOL,
  PLIM_U8,
  PLIM_I32,
  PLIM_I64,
  PLIM_BF16, // from here on floating point
  PLIM_FP16,
  PLIM_FP32,
  PLIM_FP64,
  PLIM_DTYPE_COUNT
} plim_dtype;

extern const uint8_t plim_dtype_bytes[PLIM_DTYPE_COUNT];

// Sizes or strides, outermost first.
typedef struct {
  int n;
  int64_t at[PLIM_MAX_DIMS];
} plim_dims;

typedef struct plim_tape plim_tape;
typedef struct plim_tensor plim_tensor;
typedef struct plim_grad_node plim_grad_node;

// What memory is for: the lines of a budget.
typedef enum {
  PLIM_FOR_WEIGHTS,
  PLIM_FOR_ADAPTERS,
  PLIM_FOR_GRADIENTS, // of parameters
  PLIM_FOR_OPTIMIZER, // its state, and what its step needs
  PLIM_FOR_ACTIVATIONS,
  PLIM_FOR_LOGITS, // and their loss
  PLIM_FOR_WORKSPACE,
  PLIM_PURPOSES
} plim_purpose;

typedef enum {
  PLIM_PHASE_LOAD,
  PLIM_PHASE_FORWARD,
  PLIM_PHASE_BACKWARD,
  PLIM_PHASE_OPTIMIZER,
  PLIM_PHASES
} plim_phase;

// Where in the program something happens.
typedef struct {
  const char *what; // a module or operator: "q_proj"; NULL: unknown
  int32_t layer;    // -1: outside the layers
  int32_t step;     // from 0
  uint8_t phase;
  bool is_recomputed;
} plim_program_point;

typedef struct {
  uint64_t bytes;
  uint32_t refs;
  uint32_t id; // of its allocation; while it waits, its place in the order of the move
  uint8_t purpose;
  bool is_waiting; // built on the host, to be moved to the device
  bool is_on_host; // for good: counted, but no part of the stream
  bool is_written; // by a kernel that the clock knows of
} plim_storage;

// Something that runs at a certain point of backward.
typedef struct plim_hook {
  void (*run)(plim_tape *t, void *context); // NULL: nothing
  void *context;
  struct plim_hook *next; // that runs behind it; or NULL
} plim_hook;

// A module's weight is asked for when it is called, and its bias, which model.parameters() has behind it, with it.
typedef enum { PLIM_OF_NO_MODULE, PLIM_MODULE_WEIGHT, PLIM_MODULE_BIAS } plim_module_role;

struct plim_tensor {
  plim_storage *storage;
  plim_dims shape, stride;  // strides in elements
  plim_grad_node *fn;       // the node that made it, or NULL
  plim_tensor *grad;        // of a leaf
  plim_tensor *base;        // of a view
  struct plim_quant *quant; // of a packed weight; NULL: it is a plain one
  // Of an adapter: the last parameter of the module it wraps, behind which model.parameters() has it.
  const plim_tensor *behind;
  plim_grad_node *accumulator; // of a leaf: its AccumulateGrad node while one exists; not owned
  plim_hook before_grad; // of a leaf: runs when its gradient is there, before it is accumulated
  plim_hook on_grad;     // of a leaf: runs when its gradient was accumulated
  plim_tensor *held;     // of a leaf: what its hook holds
  void *sharded;         // of a leaf: what its strategy knows of it; or NULL
  uint32_t refs;
  uint32_t layer; // of a leaf: the layer that used it, counted from 1; 0 outside of all
  uint8_t parts;  // of a leaf: bit i: plim_part i used it
  uint8_t module; // of a leaf: a plim_module_role
  uint8_t dtype;
  uint8_t output; // which output of fn it is
  bool requires_grad, is_floating;
  bool is_table;      // of an embedding
  bool is_projection; // weight of a linear layer that can be quantised
  bool is_flipped;    // of a Conv1D: (in,out), until it is quantised
};

// One allocation or free of the stream.
typedef enum {
  PLIM_STREAM_ALLOC,
  PLIM_STREAM_FREE,
  PLIM_STREAM_FREE_UNORDERED, // one of a run whose order is that of pointers in a hash table
  PLIM_STREAM_FREE_TIMED,     // when it happens depends on how fast another thread is
  PLIM_STREAM_EMPTY_CACHE,    // torch.cuda.empty_cache()
  PLIM_STREAM_KINDS
} plim_stream_kind;

// Rounds of a training loop.
typedef enum { PLIM_CYCLE_PASS, PLIM_CYCLE_STEP, PLIM_CYCLES } plim_cycle;

typedef struct {
  void (*event)(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes);
  void *context;
  // What an allocation is for turned out to be this: a gradient that a parameter keeps. Or NULL.
  void (*repurpose)(void *context, uint32_t id, plim_purpose purpose);
  // At the end of a round (cycle.h): after how many everything is as it is now; 0: not known. Then so many
  // times as many are taken as done. Or both NULL: every round is run.
  int (*repeats)(void *context, plim_cycle cycle);
  void (*skips)(void *context, plim_cycle cycle, uint64_t times);
  // A loop inside a pass begins, or is over.
  void (*inner_loop)(void *context, bool begin);
  // At the end of one of its rounds, which leaves `kept` behind (NULL: nothing): does the same again, at most so
  // many times. How many times it was done; what each left is numbered from the next allocation on. Or both
  // NULL: every round is run.
  int (*inner_loop_again)(void *context, const plim_storage *kept, int most);
} plim_tape_sink;

plim_tape *plim_tape_new(plim_tape_sink sink); // NULL when memory is out
void plim_tape_delete(plim_tape *t);           // whatever still lives is gone without an event
bool plim_tape_failed(const plim_tape *t);     // memory ran out somewhere; the stream is cut short
// A zeroed object that lives as long as the tape; at most 1 KiB.
void *plim_tape_object(plim_tape *t, size_t bytes);
void plim_tape_stop(plim_tape *t); // nothing more is wanted: the program ends at its next turn
// Most bytes of host memory asked for at a time. PyTorch rounds pinned blocks up to a power of two.
uint64_t plim_tape_host_peak(const plim_tape *t);

// The card it runs on, at which kernels look before they decide how to run: its compute capability, and
// how many multiprocessors it has (gpu.c says where those figures are from). Unless told it is an H200,
// the card of tests/truth: with no card given an estimate is of what was recorded, not of a guess.
void plim_tape_set_gpu(plim_tape *t, const plim_gpu *gpu);
const plim_gpu *plim_tape_gpu(const plim_tape *t);

void plim_tape_empty_cache(plim_tape *t);

// What is allocated from now on is for this; what it was for before is returned.
plim_purpose plim_tape_purpose(plim_tape *t, plim_purpose purpose);
// Bytes that live, for each purpose; as asked for, before the allocator rounds them.
const uint64_t *plim_tape_live(const plim_tape *t);

plim_program_point plim_tape_point(const plim_tape *t);

// What the allocation that is being made is for; to be asked while its event is sent.
typedef struct {
  plim_dims shape;
  plim_dtype dtype;
  plim_purpose purpose;
} plim_pending_alloc;

plim_pending_alloc plim_tape_pending(const plim_tape *t);
void plim_tape_set_phase(plim_tape *t, plim_phase phase, int step);
void plim_tape_enter(plim_tape *t, int layer, const char *what);
void plim_tape_at(plim_tape *t, const char *what); // in the same layer
void plim_tape_enter_layer(plim_tape *t);          // the next one of this phase

// The CUDA stream that allocates now: each has memory of its own. A sink may ask during an event.
typedef enum {
  PLIM_COMPUTE_STREAM,
  PLIM_GATHER_STREAM, // copies into and out of all-gathers
  PLIM_REDUCE_STREAM, // results of reduce-scatters
  PLIM_STREAMS
} plim_stream;
plim_stream plim_tape_stream(const plim_tape *t);

// ---- lifetimes ------------------------------------------------------------------------------------

void plim_retain(plim_tensor *x);
void plim_release(plim_tape *t, plim_tensor *x); // NULL is fine
void plim_consume(plim_tape *t, plim_tensor *x); // releases it if it is floating
// An argument of a function lives until the function returns, floating or not:
//   bool was = hold(x); ...; let_go(t, x, was);
bool plim_hold(plim_tensor *x);
void plim_let_go(plim_tape *t, plim_tensor *x, bool was_floating);
void plim_set(plim_tape *t, plim_tensor **variable, plim_tensor *value);
void plim_drop(plim_tape *t, plim_tensor **variable);
// Several, in this order: drop_all(t, &q, &k, &v) lets go of variables, consume_all(t, a, b) of results.
void plim_drop_list(plim_tape *t, plim_tensor **const *variables, size_t count);
void plim_consume_list(plim_tape *t, plim_tensor *const *results, size_t count);
// return variable: hands its reference on, floating.
plim_tensor *plim_give(plim_tape *t, plim_tensor **variable);

// ---- tensors --------------------------------------------------------------------------------------

int64_t plim_numel(const plim_dims *shape);
plim_dims plim_contiguous_strides(const plim_dims *shape);
bool plim_is_contiguous(const plim_tensor *x);
bool plim_is_dense(const plim_tensor *x); // non-overlapping and dense, in any order of dimensions
bool plim_same(const plim_dims *a, const plim_dims *b);

// New memory; contiguous unless strides are given.
plim_tensor *plim_empty(plim_tape *t, plim_dims shape, plim_dtype dtype);
plim_tensor *plim_empty_strided(plim_tape *t, plim_dims shape, plim_dims stride, plim_dtype dtype);
// The same for another purpose than what is allocated now.
plim_tensor *plim_empty_for(plim_tape *t, plim_purpose purpose, plim_dims shape, plim_dtype dtype);
// Memory of the host: offloaded, or paged by the driver.
plim_tensor *plim_empty_on_host(plim_tape *t, plim_dims shape, plim_dtype dtype);
// Memory that lives for one operator: allocate, then plim_release.
plim_tensor *plim_scratch(plim_tape *t, uint64_t bytes);
// The tensor gets new memory in another dtype, then loses the old: p.data = p.data.to(dtype).
void plim_retype(plim_tape *t, plim_tensor *x, plim_dtype dtype);
// x.data = y.data: x gives up its memory for y's.
void plim_set_data(plim_tape *t, plim_tensor *x, const plim_tensor *y);
// untyped_storage().resize_(): the same tensors over more memory or, with 0, over none.
void plim_resize_storage(plim_tape *t, plim_tensor *x, uint64_t bytes);
// The same memory seen otherwise. A view keeps its base alive; an alias only the memory.
plim_tensor *plim_view_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride);
plim_tensor *plim_alias_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride);

// What is made between these two is made on the host, which costs the device nothing, until it is
// moved there (model.to): what still lives, in the order it was made. plim_retype moves one alone.
void plim_tape_begin_host(plim_tape *t);
void plim_tape_end_host(plim_tape *t);
void plim_tape_move_to_device(plim_tape *t);
void plim_tape_move(plim_tape *t, plim_tensor *x); // it alone; if it is there already: nothing
// On the host, x is to be moved as the nth behind `other`, not when it was made. n: 1 or 2.
void plim_tape_move_behind(plim_tensor *x, const plim_tensor *other, uint32_t n);

// ---- autograd -------------------------------------------------------------------------------------

enum { PLIM_MAX_EDGES = 8, PLIM_MAX_SAVED = 8, PLIM_MAX_KEPT = 3 };

// Computes the gradients of a node's inputs from those of its outputs. `in` is borrowed, may hold
// NULL; `out` takes references.
typedef void plim_backward_fn(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out);

typedef struct {
  plim_grad_node *node; // NULL: needs no gradient
  uint8_t output;
} plim_edge;

struct plim_grad_node {
  uint64_t sequence;                  // nodes made later run first
  plim_backward_fn *function;         // NULL: AccumulateGrad
  plim_edge *edges;                   // edge_count of them
  plim_tensor *saved[PLIM_MAX_SAVED]; // in the order they are released
  // What is not saved but to be computed again: by whom, as the how manieth, and which entries.
  struct plim_checkpoint *packer;
  uint32_t packed_index[PLIM_MAX_SAVED];
  plim_dims first_shape;            // of its outputs
  plim_dims *more_shapes;           // from the second on; NULL if there is none
  struct plim_checkpoint *frame;    // of a reentrant checkpoint
  plim_tensor *leaf;                // AccumulateGrad: the tensor it is for
  plim_tensor *kept[PLIM_MAX_KEPT]; // as long as the node lives, and not only until backward
  const plim_tensor *constant;      // a weight that outlives the graph; not owned
  plim_hook *before;                // runs when all gradients of its outputs are there; not owned
  plim_dims shape;                  // whatever the operator wants to remember
  int64_t number;
  double pairs, width; // attention: of query and key, for the clock
  const char *what;    // where it was made
  int32_t layer;
  uint32_t refs, task; // task: the engine's, while it runs
  uint8_t edge_count, output_count, saved_count;
  uint8_t packed;                 // bit k: saved[k]
  uint8_t dtypes[PLIM_MAX_EDGES]; // of its outputs
  uint8_t dtype, purpose;
  bool is_transposed; // products: their second operand
  bool is_python;     // a Python function: what it unpacks is in its variables
};

static inline plim_dims plim_output_shape(const plim_grad_node *n, int output) {
  return output ? n->more_shapes[output - 1] : n->first_shape;
}

bool plim_needs_grad(const plim_tape *t, const plim_tensor *x);

// A node for `x`, whose inputs are given in the order of their edges (NULL where there is none).
// Saved inputs are added with save() before the operator allocates, saved outputs after.
plim_grad_node *plim_node_begin(plim_tape *t, plim_backward_fn *backward,
                                plim_tensor *const *inputs, int count);
void plim_node_save(plim_tape *t, plim_grad_node *n, plim_tensor *x); // an input; NULL is fine
void plim_node_save_output(plim_tape *t, plim_grad_node *n, plim_tensor *x);
void plim_node_output(plim_tape *t, plim_grad_node *n, plim_tensor *x);
void plim_node_release(plim_tape *t, plim_grad_node *n);

// register_hook: runs the hook before the node of x, behind those that are there; nothing if x needs no
// gradient. The hook is not owned.
void node_before(plim_tape *t, plim_tensor *x, plim_hook *hook);

bool plim_wants(const plim_grad_node *n, int edge);

// Runs backward from `x` with the gradient `grad`, which is consumed; or from several at once.
void plim_backward(plim_tape *t, plim_tensor *x, plim_tensor *grad);
void plim_backward_all(plim_tape *t, plim_tensor *const *xs, plim_tensor *const *grads, int count);

// torch.utils.checkpoint: calls a function whose saved tensors are not kept but computed again in
// backward. `held` are tensors of the function's context, kept as long as that may happen; the
// context itself must outlive the tape's use of it.
typedef plim_tensor *plim_checkpointed_fn(plim_tape *t, const void *context,
                                          plim_tensor *const *held, plim_tensor *x);
enum { PLIM_MAX_HELD = 5, PLIM_MAX_RESULTS = 2 };

typedef struct {
  plim_checkpointed_fn *function;
  const void *context;
  plim_tensor *held[PLIM_MAX_HELD]; // NULL where there is none
  // Further results: PLIM_MAX_RESULTS variables that the function sets, or NULL. They must live as
  // long as the context.
  plim_tensor **results;
  // So many of what is held, from the first, are arguments like the input and saved behind it. The
  // others are keywords, and go before it.
  int positional;
} plim_closure;

plim_tensor *plim_checkpoint_call(plim_tape *t, plim_closure call, plim_tensor *x);
// use_reentrant=True: forward without a graph; backward runs it again, with a backward of its own.
// Gradients flow through the input, positional arguments and all results.
plim_tensor *plim_checkpoint_reentrant(plim_tape *t, plim_closure call, plim_tensor *x);
// The same, with the input on the host until then.
plim_tensor *plim_checkpoint_offloaded(plim_tape *t, plim_closure call, plim_tensor *x);

// torch.autograd.graph.save_on_cpu: whatever nodes save while it is on waits on the host.
void plim_save_on_host(plim_tape *t, bool on);

// Lets go of the graph behind a tensor, before the tensor itself.
void plim_drop_graph(plim_tape *t, plim_tensor *x);

bool plim_set_grad_mode(plim_tape *t, bool on); // returns what it was

typedef enum { PLIM_MAIN_THREAD, PLIM_BACKWARD_THREAD, PLIM_THREADS } plim_thread;

#endif
