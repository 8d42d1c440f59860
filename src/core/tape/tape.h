// The tape: a miniature of PyTorch's eager engine. A tensor has shape, strides, dtype, a reference
// count and an autograd node, but no data. Operators allocate what PyTorch's operators allocate, in
// the same order; the tape's output is that stream of allocations and frees.
//
// Lifetimes follow Python. An operator's result is *floating*, like a temporary on Python's stack:
// the next operator that takes it as an argument releases it when done. A variable keeps it:
//
//   plim_tensor *y = NULL;
//   set(t, &y, linear(t, silu(t, x), w));   // silu's result is freed when linear is done
//   drop(t, &y);
//
// Rebinding a variable releases its old value after the new one exists. Never pass two operator
// calls as arguments of one call: C does not specify which of them runs first.
#ifndef PLIM_CORE_TAPE_H
#define PLIM_CORE_TAPE_H

#include "gpu.h"
#include "vec.h"

#define PLIM_MAX_DIMS 6

typedef enum {
  PLIM_BOOL,
  PLIM_U8,
  PLIM_I32,
  PLIM_I64,
  PLIM_BF16, // every dtype from here on is floating point
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

// What memory is used for; each is one line of the budget.
typedef enum {
  PLIM_FOR_WEIGHTS,
  PLIM_FOR_ADAPTERS,
  PLIM_FOR_GRADIENTS, // gradients of parameters
  PLIM_FOR_OPTIMIZER, // optimizer state, and the temporaries of its step
  PLIM_FOR_ACTIVATIONS,
  PLIM_FOR_LOGITS, // logits and their loss
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

// A position in the training program.
typedef struct {
  const char *what; // a module or operator, such as "q_proj"; NULL: unknown
  int32_t layer;    // -1: outside the layers
  int32_t step;     // counted from 0
  uint8_t phase;
  bool is_recomputed;
} plim_program_point;

typedef struct {
  uint64_t bytes;
  uint32_t refs;
  uint32_t id; // its allocation's number; while is_waiting, its position in the order of the move
  uint8_t purpose;
  bool is_waiting;  // built on the host, will be moved to the device
  bool is_on_host;  // stays on the host: counted, but not in the stream
  bool is_written;  // a kernel recorded by the clock has written it
  uint32_t waiting; // while is_waiting: its index in the tape's list
} plim_storage;

// A callback at a certain point of backward.
typedef struct plim_hook {
  void (*run)(plim_tape *t, void *context); // NULL: no callback
  void *context;
  struct plim_hook *next; // runs after this one; or NULL
} plim_hook;

// Which parameter of its module a tensor is. ZeRO-3 asks for a module's weight when the module is called, and for
// its bias, which follows the weight in model.parameters(), together with it.
typedef enum { PLIM_OF_NO_MODULE, PLIM_MODULE_WEIGHT, PLIM_MODULE_BIAS } plim_module_role;

// Whether Trainer's optimizer applies weight decay to a parameter.
typedef enum {
  PLIM_DECAY_BY_SHAPE, // to matrices
  PLIM_DECAY_NEVER,    // a matrix whose name contains "bias"
  PLIM_DECAY_ALWAYS    // a vector that is neither a bias nor in a norm
} plim_decay;

struct plim_tensor {
  plim_storage *storage;
  plim_dims shape, stride;  // strides in elements
  int64_t offset;           // of its first element in the storage; known of slices and parts
  plim_grad_node *fn;       // the node that computed it, or NULL
  plim_tensor *grad;        // of a leaf: its gradient, or NULL
  plim_tensor *base;        // of a view: the tensor it is a view of
  struct plim_quant *quant; // of a packed weight; NULL: not quantised
  struct plim_fake_quant *fake_quant; // of a weight that is rounded while it is trained; or NULL
  // Of an adapter: the last parameter of the module it wraps; model.parameters() lists the adapter after it.
  const plim_tensor *behind;
  plim_grad_node *accumulator; // of a leaf: its AccumulateGrad node, while one exists; not owned
  plim_hook before_grad;       // of a leaf: runs once its gradient is complete, before accumulation
  plim_hook on_grad;           // of a leaf: runs after its gradient was accumulated
  plim_tensor *held;           // of a leaf: the tensor that its hook keeps alive
  void *sharded;               // of a leaf: data of the sharding strategy; or NULL
  uint32_t refs;
  // Of a leaf, for its optimizer: the rank to which its gradient is projected, or how many blocks of it have a second moment
  // of their own (plim_optimizer_prepare); 0: neither.
  uint32_t blocks;
  uint32_t layer; // of a leaf: 1 + the layer that used it; 0: used outside the layers
  uint32_t cast;  // of a leaf: 1 + its place among the casts that autocast keeps; 0: it has none
  uint8_t parts;  // of a leaf: bit i is set if plim_part i used it
  uint8_t module; // of a leaf: a plim_module_role
  // Of a leaf that loading widens to float32 (_keep_in_fp32_modules_strict): the dtype it was declared with; or 0.
  uint8_t declared;
  uint8_t decay; // of a leaf: a plim_decay
  uint8_t dtype;
  uint8_t output; // its index among the outputs of fn
  bool requires_grad, is_floating;
  bool is_table;      // weight of an embedding
  bool is_adapter;    // matrix of an adapter
  bool is_projection; // weight of a linear layer that can be quantised
  bool is_flipped;    // weight of a Conv1D, stored as (in,out) until it is quantised
};

// The kinds of event in the stream.
typedef enum {
  PLIM_STREAM_ALLOC,
  PLIM_STREAM_FREE,
  PLIM_STREAM_FREE_UNORDERED, // one of several frees in the order of a hash table of pointers
  PLIM_STREAM_FREE_TIMED,     // its moment depends on the speed of another thread
  PLIM_STREAM_EMPTY_CACHE,    // torch.cuda.empty_cache()
  PLIM_STREAM_KINDS
} plim_stream_kind;

// The repeating rounds of a training loop: one forward and backward, or one optimizer step.
typedef enum { PLIM_CYCLE_PASS, PLIM_CYCLE_STEP, PLIM_CYCLES } plim_cycle;

typedef struct {
  void (*event)(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes);
  void *context;
  // Changes the purpose of an existing allocation, for example when a parameter keeps it as its gradient. May be NULL.
  void (*repurpose)(void *context, uint32_t id, plim_purpose purpose);
  // `repeats` is called at the end of a round (loop_skip.h). It returns the period: the number of rounds after which
  // everything is as it is now; 0: not known. `skips` then tells the sink that `times` periods are not run but
  // count as done. Both are NULL if every round is to be run.
  int (*repeats)(void *context, plim_cycle cycle);
  void (*skips)(void *context, plim_cycle cycle, uint64_t times);
  // Called when a loop inside a pass begins and when it ends.
  void (*inner_loop)(void *context, bool begin);
  // Called at the end of each round of that loop. The round leaves the allocation `kept` behind (NULL: nothing).
  // Repeats the round up to `most` times without the tape and returns how many times it did; the allocations that
  // those rounds leave behind are numbered from the next allocation on. inner_loop and inner_loop_again are both
  // NULL if every round is to be run.
  int (*inner_loop_again)(void *context, const plim_storage *kept, int most);
  // Bytes of the card that PyTorch has not reserved so far; PLIM_UNKNOWN: not known. May be NULL.
  uint64_t (*room)(void *context);
} plim_tape_sink;

plim_tape *plim_tape_new(plim_tape_sink sink); // NULL when out of memory
void plim_tape_delete(plim_tape *t);           // sends no events for tensors that still live
bool plim_tape_failed(const plim_tape *t);     // out of memory or stopped: the stream is incomplete
// A zeroed object that lives as long as the tape; at most 1 KiB.
void *plim_tape_object(plim_tape *t, size_t bytes);
void plim_tape_stop(plim_tape *t); // the caller has seen enough: the program ends as soon as it can
// The peak of host memory in bytes. PyTorch rounds pinned blocks up to a power of two; this does not.
uint64_t plim_tape_host_peak(const plim_tape *t);
uint64_t plim_tape_host_bytes(const plim_tape *t); // now
uint64_t plim_tape_room(const plim_tape *t);       // of the sink

// The card the program runs on. Kernels look at its compute capability and its number of multiprocessors to
// decide how they run (gpu.c gives the sources of those figures). The default is an H200, the card of
// tests/truth, so an estimate without a card predicts what was recorded there. `gpu` must outlive the tape.
void plim_tape_set_gpu(plim_tape *t, const plim_gpu *gpu);
const plim_gpu *plim_tape_gpu(const plim_tape *t);

void plim_tape_empty_cache(plim_tape *t);

// Sets the purpose of everything allocated from now on; returns the previous one.
plim_purpose plim_tape_purpose(plim_tape *t, plim_purpose purpose);
// Live bytes for each purpose, as requested: the allocator's rounding is not included.
const uint64_t *plim_tape_live(const plim_tape *t);

plim_program_point plim_tape_point(const plim_tape *t);

// What first writes to new memory. It matters to the driver, which takes memory of its own for some kernels.
typedef enum {
  PLIM_BY_KERNEL,
  PLIM_BY_CHECKING_KERNEL, // one with an assert()
  PLIM_BY_RANDOM_KERNEL,   // one that draws random numbers
  PLIM_BY_COPY,            // from the host; or nothing does
  PLIM_BY_CUDNN,           // one of cuDNN's kernels for attention
  PLIM_BY_FIRST_PRODUCT // a thread's first product of matrices: it makes a handle of cuBLAS before it allocates
} plim_writer;

// Says it of the next allocation; otherwise it is PLIM_BY_KERNEL.
void plim_tape_written(plim_tape *t, plim_writer by);

// Describes the allocation whose event is being sent; valid only inside the sink's event callback.
typedef struct {
  plim_dims shape;
  plim_dtype dtype;
  plim_purpose purpose;
  plim_writer writer;
} plim_pending_alloc;

plim_pending_alloc plim_tape_pending(const plim_tape *t);
void plim_tape_set_phase(plim_tape *t, plim_phase phase, int step);
void plim_tape_enter(plim_tape *t, int layer, const char *what);
void plim_tape_at(plim_tape *t, const char *what); // in the same layer
void plim_tape_enter_layer(plim_tape *t);          // the next layer of this phase

// The CUDA stream that allocates at present. Each stream has its own blocks. A sink may ask during an event.
typedef enum {
  PLIM_COMPUTE_STREAM,
  PLIM_GATHER_STREAM,  // copies into and out of all-gather buffers
  PLIM_REDUCE_STREAM,  // results of reduce-scatters
  PLIM_OFFLOAD_STREAM, // activations that come back from the host
  PLIM_STREAMS
} plim_stream;
plim_stream plim_tape_stream(const plim_tape *t);

// ---- lifetimes ------------------------------------------------------------------------------------

void plim_retain(plim_tensor *x);
void plim_release(plim_tape *t, plim_tensor *x); // x may be NULL
void plim_consume(plim_tape *t, plim_tensor *x); // releases x if it is floating
// Keeps an argument alive until the function returns, even if it is floating:
//   bool was = hold(x); ...; let_go(t, x, was);
bool plim_hold(plim_tensor *x);
void plim_let_go(plim_tape *t, plim_tensor *x, bool was_floating);
void plim_set(plim_tape *t, plim_tensor **variable, plim_tensor *value);
void plim_drop(plim_tape *t, plim_tensor **variable);
// Several in the given order: drop_all(t, &q, &k, &v) drops variables, consume_all(t, a, b) consumes results.
void plim_drop_list(plim_tape *t, plim_tensor **const *variables, size_t count);
void plim_consume_list(plim_tape *t, plim_tensor *const *results, size_t count);
// Python's `return variable`: hands the variable's reference to the caller, floating.
plim_tensor *plim_give(plim_tape *t, plim_tensor **variable);

// ---- tensors --------------------------------------------------------------------------------------

int64_t plim_numel(const plim_dims *shape);
plim_dims plim_contiguous_strides(const plim_dims *shape);
bool plim_is_contiguous(const plim_tensor *x);
bool plim_is_dense(const plim_tensor *x); // non-overlapping and dense, dimensions in any order
bool plim_same(const plim_dims *a, const plim_dims *b);

// Allocates new memory; contiguous unless strides are given.
plim_tensor *plim_empty(plim_tape *t, plim_dims shape, plim_dtype dtype);
plim_tensor *plim_empty_strided(plim_tape *t, plim_dims shape, plim_dims stride, plim_dtype dtype);
// The same, with another purpose than the current one.
plim_tensor *plim_empty_for(plim_tape *t, plim_purpose purpose, plim_dims shape, plim_dtype dtype);
// Memory on the host: offloaded, or paged by the driver.
plim_tensor *plim_empty_on_host(plim_tape *t, plim_dims shape, plim_dtype dtype);
// Temporary memory of one operator: the caller calls plim_release when done.
plim_tensor *plim_scratch(plim_tape *t, uint64_t bytes);
// Allocates new memory of another dtype for x, then frees the old: p.data = p.data.to(dtype).
void plim_retype(plim_tape *t, plim_tensor *x, plim_dtype dtype);
// x.data = y.data: x releases its storage and shares y's.
void plim_set_data(plim_tape *t, plim_tensor *x, const plim_tensor *y);
// untyped_storage().resize_(): changes the size of the storage under all tensors that use it; 0 frees it.
void plim_resize_storage(plim_tape *t, plim_tensor *x, uint64_t bytes);
// Another tensor over the same storage. A view keeps its base tensor alive; an alias keeps only the storage.
plim_tensor *plim_view_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride);
plim_tensor *plim_alias_of(plim_tape *t, plim_tensor *x, plim_dims shape, plim_dims stride);

// Tensors made between begin_host and end_host are built on the host and cost no device memory until
// plim_tape_move_to_device (model.to) moves those that still live, in the order they were made. plim_retype
// after end_host moves a single one.
void plim_tape_begin_host(plim_tape *t);
void plim_tape_end_host(plim_tape *t);
bool plim_tape_is_on_host(const plim_tape *t);
void plim_tape_move_to_device(plim_tape *t);
// Moves x alone; does nothing if it is already on the device.
void plim_tape_move(plim_tape *t, plim_tensor *x);
// Moves x as the nth (1 to 7) after `other` instead of in the order it was made. Has an effect only on the host.
void plim_tape_move_behind(plim_tensor *x, const plim_tensor *other, uint32_t n);

// ---- autograd -------------------------------------------------------------------------------------

enum { PLIM_MAX_EDGES = 8, PLIM_MAX_SAVED = 8, PLIM_MAX_KEPT = 3 };

// Computes the gradients of a node's inputs (`out`) from those of its outputs (`in`). `in` is borrowed and
// may contain NULL; the function puts owned references into `out`.
typedef void plim_backward_fn(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out);

typedef struct {
  plim_grad_node *node; // NULL: the input needs no gradient
  uint8_t output;
} plim_edge;

// The first node of a round that is recorded in backward, and the node that stands for many rounds (fold.h).
typedef enum { PLIM_FOLD_NONE, PLIM_FOLD_ROUND, PLIM_FOLD_NODE } plim_fold_role;

struct plim_grad_node {
  // What the engine reads of every node, together in as few cache lines as possible.
  uint64_t sequence;          // nodes with a higher number run first
  plim_backward_fn *function; // NULL: AccumulateGrad
  plim_edge *edges;           // edge_count of them
  plim_hook *before;          // runs when all gradients of its outputs have arrived; not owned
  const char *what;           // the program point where it was made
  int32_t layer;
  uint32_t refs, task; // task: its number in the running engine
  uint8_t edge_count, output_count, saved_count;
  uint8_t packed;  // bit k is set if saved[k] will be recomputed
  uint8_t tracked; // bit k is set if OffloadActivations has given saved[k] a number
  uint8_t dtype, purpose;
  uint8_t fold;                   // a plim_fold_role
  uint8_t dtypes[PLIM_MAX_EDGES]; // of the outputs
  bool is_transposed;             // products: the second operand is transposed
  bool
      drops_in_order; // unpacked tensors, as variables of Python and lists are dropped; others in reverse
  plim_dims first_shape;              // of the first output
  struct plim_checkpoint *frame;      // of a reentrant checkpoint; NULL for other nodes
  plim_tensor *leaf;                  // AccumulateGrad: the tensor it is for
  plim_dims *more_shapes;             // of the outputs after the first; NULL if there is only one
  plim_tensor *kept[PLIM_MAX_KEPT];   // lives as long as the node, not only until backward
  plim_tensor *saved[PLIM_MAX_SAVED]; // in the order they are released
  // Entries that a checkpoint will recompute instead of saving: the checkpoint, and each entry's number in it. Or the
  // numbers that OffloadActivations has given.
  struct plim_checkpoint *packer;
  uint32_t packed_index[PLIM_MAX_SAVED];
  const plim_tensor *constant; // a weight that outlives the graph; not owned
  plim_dims shape;             // free for the operator's use
  void *context;               // the same; lives as long as the tape
  int64_t number;
  double pairs, width; // attention: pairs of query and key, and head size; for the clock
};

static inline plim_dims plim_output_shape(const plim_grad_node *n, int output) {
  return output ? n->more_shapes[output - 1] : n->first_shape;
}

bool plim_needs_grad(const plim_tape *t, const plim_tensor *x);

// Notes which layer and which parts use a parameter. plim_node_begin does it for its inputs.
void plim_mark_used(const plim_tape *t, plim_tensor *x);

// Begins a node with one edge per input (an input may be NULL). Returns NULL if no input needs a gradient.
// Save inputs with node_save() before the operator allocates its result, and outputs with
// node_save_output() after.
plim_grad_node *plim_node_begin(plim_tape *t, plim_backward_fn *backward,
                                plim_tensor *const *inputs, int count);
void plim_node_save(plim_tape *t, plim_grad_node *n, plim_tensor *x); // an input; x may be NULL
void plim_node_save_output(plim_tape *t, plim_grad_node *n, plim_tensor *x);
void plim_node_output(plim_tape *t, plim_grad_node *n, plim_tensor *x);
void plim_node_release(plim_tape *t, plim_grad_node *n);

// register_hook: runs the hook before the node of x, after the hooks already there. Does nothing if x needs no
// gradient. The hook is not owned.
void node_before(plim_tape *t, plim_tensor *x, plim_hook *hook);

bool plim_wants(const plim_grad_node *n, int edge);

// Runs backward from `x` with the gradient `grad`, which it consumes; or from several tensors at once.
void plim_backward(plim_tape *t, plim_tensor *x, plim_tensor *grad);
void plim_backward_all(plim_tape *t, plim_tensor *const *xs, plim_tensor *const *grads, int count);

// torch.utils.checkpoint: calls a function whose saved tensors are not kept but recomputed in backward.
// `held` are tensors of the function's context that stay alive until recomputation is no longer possible;
// the context itself must outlive the tape's use of it.
typedef plim_tensor *plim_checkpointed_fn(plim_tape *t, const void *context,
                                          plim_tensor *const *held, plim_tensor *x);
enum { PLIM_MAX_HELD = 6, PLIM_MAX_RESULTS = 2, PLIM_BAG_SLOTS = 4 };

// Tensors that checkpointed functions put aside for each other, as in a dict that all of them get. It is emptied, slot by
// slot, when the last that keeps it is gone. Its owner must outlive the tape's use of it.
typedef struct {
  plim_tensor *at[PLIM_BAG_SLOTS]; // variables
  uint32_t refs;
} plim_bag;

void plim_bag_keep(plim_bag *bag); // bag may be NULL, also below
void plim_bag_release(plim_tape *t, plim_bag *bag);

typedef struct {
  plim_checkpointed_fn *function;
  const void *context;
  plim_tensor *held[PLIM_MAX_HELD]; // NULL where there is none
  plim_bag *bag;                    // or NULL; released before those held
  // Further results: PLIM_MAX_RESULTS variables that the function sets, or NULL. They must live as
  // long as the context.
  plim_tensor **results;
  // The first `positional` entries of `held` are positional arguments, saved after the input; the others are
  // keyword arguments, released before it: first those whose bits are set in `first`.
  int positional;
  unsigned first;
} plim_closure;

plim_tensor *plim_checkpoint_call(plim_tape *t, plim_closure call, plim_tensor *x);
// use_reentrant=True: forward builds no graph; backward runs the function again and then a nested backward.
// Gradients flow through the input, positional arguments and all results.
plim_tensor *plim_checkpoint_reentrant(plim_tape *t, plim_closure call, plim_tensor *x);
// Reentrant, with the input kept on the host until backward.
plim_tensor *plim_checkpoint_offloaded(plim_tape *t, plim_closure call, plim_tensor *x);

// Where tensors that are saved for backward are kept. The class OffloadActivations copies large ones to the host on a
// stream of its own; INLINE: on the compute stream (use_streams=False). TRL and Axolotl use it around a whole training
// step, torchtune's recipes around the model. With adapters, Axolotl does not tell it the model's parameters.
typedef enum {
  PLIM_SAVED_HERE,    // on the GPU
  PLIM_SAVED_ON_HOST, // torch.autograd.graph.save_on_cpu
  PLIM_SAVED_BY_TRL,
  PLIM_SAVED_BY_TRL_INLINE,
  PLIM_SAVED_BY_TUNE,
  PLIM_SAVED_BY_TUNE_INLINE,
  PLIM_SAVED_BY_AXOLOTL, // with adapters; without, as by TRL
  PLIM_SAVED_BY_AXOLOTL_INLINE,
  PLIM_SAVED_INPUTS, // Axolotl's own class (activation_offloading: hidden_states): inputs of checkpoints alone
  PLIM_SAVINGS
} plim_saving;

plim_saving plim_saves(plim_tape *t, plim_saving how); // from now on; returns how it was
// While the output head runs, which the class leaves out, and while the loss is computed, which torchtune's recipes do
// outside of its context and of the model. Both return how it was, for plim_saves.
bool plim_saves_model_alone(const plim_tape *t); // torchtune's
plim_saving plim_saves_head(plim_tape *t);
plim_saving plim_saves_loss(plim_tape *t);
// Drops what torchtune's class brought back: FSDP2's callback, queued by the model's output, comes before the class's own.
void plim_saves_clean(plim_tape *t);
// `with OffloadActivations:` around a training step. They do nothing for save_on_cpu and torchtune's.
void plim_saves_enter(plim_tape *t, plim_saving how);
void plim_saves_leave(plim_tape *t, plim_saving how);

// Releases the graph behind a tensor before the tensor itself.
void plim_drop_graph(plim_tape *t, plim_tensor *x);

bool plim_set_grad_mode(plim_tape *t, bool on); // returns the previous mode

typedef enum { PLIM_MAIN_THREAD, PLIM_BACKWARD_THREAD, PLIM_THREADS } plim_thread;

#endif
