// What the source files of the tape share: its state, its memory pools and the functions of checkpoint.c.
// Private to this folder.
#ifndef PLIM_CORE_TAPE_IMPL_H
#define PLIM_CORE_TAPE_IMPL_H

#include "clock.h"
#include "interconnect.h"
#include "offload.h"
#include "tape_state.h"

struct tape_pool {
  void *free;
};

struct tape_cast {
  plim_tensor *leaf;
  plim_tensor *cast;
};

struct tape_time_mark {
  double cpu, gpu_free;
  uint32_t operators;
  plim_step_time now;
};

// The rounds of a loop: the ends of the last two (the latest first), and what the last round added.
struct tape_period {
  struct tape_time_mark ends[2], each;
  int marked; // number of rounds marked
};

// The two timelines in seconds, and the totals of the current step so far.
struct tape_clock {
  double cpu, gpu_free, began, pass_began, pass_before;
  double ring_free, to_host_free, from_host_free; // when each link is free (traffic.h)
  double once;                                    // waiting in this pass that happens once per step
  double neighbours;                              // GPUs in this machine
  plim_ring ring;
  uint32_t operators;          // forward operators since Trainer last read the loss
  uint32_t modules;            // forward module calls since plim_work_take_modules
  bool ends_longer;            // the last pass of a step does work that the others do not
  double visit_seconds;        // time of the hooks around one module call; 0: no hooks
  bool is_causal, has_dropout; // of the attention kernel recorded next
  plim_step_time now, last, step_before;
  struct tape_period passes, inner_loop; // of the current step; of the loop inside the current pass
};

// One event of a round that is sent again, and one addition to the clock (fold.h).
typedef struct {
  uint64_t bytes;
  uint32_t id;
  uint8_t kind, purpose; // a plim_stream_kind and a plim_purpose
} fold_event;

typedef enum {
  FOLD_CPU,
  FOLD_LAUNCH,
  FOLD_FLOPS,
  FOLD_RECOMPUTED_FLOPS,
  // Only in passes (pass_replay.c):
  FOLD_SYNCHRONIZE,
  FOLD_NOW,       // plim_traffic_now
  FOLD_RING,      // a transfer between GPUs
  FOLD_TO_HOST,   // a copy
  FOLD_FROM_HOST, // the same
  FOLD_AWAIT,     // the card waits
  FOLD_AWAIT_ON_HOST,
  FOLD_PASS_END
} fold_work_kind;

typedef struct {
  double amount; // seconds or operations
  fold_work_kind kind;
  // Of transfers and waiting: the moment after which, as the number of moments marked since; 0: one before this step.
  uint32_t ago;
} fold_work;

typedef struct {
  vec(fold_event) events;
  vec(fold_work) work;
  uint32_t first, size; // number of its first allocation, and of its allocations
  uint32_t operators, modules;
} fold_round;

struct tape_fold {
  fold_round last, before; // the rounds recorded last
  uint64_t events;         // sent again so far
  bool is_on, has_failed, is_recording;
  bool is_paused; // the clock does not count: the node of a fold is no work
};

// One event of a pass. Allocations of the pass itself and of the one before are named by their place in that pass,
// older ones by their number.
typedef enum { PASS_OWN, PASS_BEFORE, PASS_OLDER } pass_age;

// A plim_stream_kind, or an allocation that changes its purpose.
typedef enum { PASS_LEAVES_PURPOSE = PLIM_STREAM_KINDS, PASS_GETS_PURPOSE } pass_event_kind;

typedef struct {
  uint64_t bytes;
  uint32_t name;
  uint8_t kind, purpose, of,
      stream; // a pass_event_kind, a plim_purpose, a pass_age and a plim_stream
} pass_event;

// The program point of an event and of those after it, up to the next one.
typedef struct {
  size_t event;
  plim_program_point place;
} pass_place;

// Allocations of the pass that ran last before others were sent again: they are now those of the last pass sent.
typedef struct {
  uint32_t first, size, by;
} pass_window;

// The pass of a step that ran last (pass_replay.c). A pass is compared with the recording while it replaces it.
struct tape_passes {
  bool is_on, is_recording;
  bool is_alike;                  // as the recording so far
  bool is_void;                   // something was recorded that cannot be sent again
  size_t event_count, work_count; // of this pass so far
  vec(pass_event) events;
  vec(fold_work) work;
  vec(pass_place) places;
  uint32_t first, first_before; // first allocation of this pass, and of the pass before
  uint32_t operators, modules;  // at the beginning, then what the pass added
  uint64_t host_bytes;          // at the beginning
  vec(pass_window) moved;
  uint32_t moved_end; // end of the last window
  // The moments of this step that something may wait for (traffic.c), and where those of the pass that ran last are among
  // them. Once others were sent again, their moments count in place of these: `moments_by` further on.
  vec(double) moments;
  size_t moments_first, moments_size, moments_by;
};

struct plim_tape {
  plim_tape_state state; // must be first: plim_state() casts the tape to it
  plim_tape_sink sink;
  const plim_gpu *gpu;
  plim_program_point place;
  plim_pending_alloc pending;
  uint64_t live[PLIM_PURPOSES];
  uint8_t purpose;                     // a plim_purpose
  uint8_t writer;                      // a plim_writer: of the next allocation
  struct tape_chunk *chunks, *reserve; // reserve: an array, used when malloc fails
  size_t reserved_used;
  struct tape_pool tensors, storages, nodes, frames, shapes, edges[4];
  vec(plim_grad_node *) doomed; // nodes whose last reference is gone, to be destroyed
  uint64_t sequence;
  uint64_t host_bytes, host_peak;
  uint32_t next_id;
  vec(plim_storage *) waiting; // built on the host, to be moved; NULL where already freed
  bool is_on_host;
  plim_tensor *workspaces[PLIM_THREADS][2]; // cuBLAS, cuBLASLt: one per thread, never freed
  bool has_handle[PLIM_THREADS];            // of cuBLAS
  vec(struct tape_cast) casts;              // casts of leaves made under autocast
  struct tape_clock clock;
  struct tape_fold fold;
  struct tape_passes passes;
  struct plim_checkpoint *packing;    // the checkpoint whose function is running, or NULL
  struct plim_checkpoint *recomputed; // list of checkpoints that own arrays
  struct tape_offload offload;
  vec(plim_tensor *) unwound; // variables of functions stopped by the exception
  bool grad_mode;
  _Alignas(16) unsigned char spare[1024];
};

// fmax without its rule for NaN, which costs a call.
static inline double clock_later(double a, double b) { return a > b ? a : b; }

// Whether work is recorded: the card's rates are known, and the program has not been stopped.
static inline bool clock_is_on(const plim_tape *t) {
  return t->gpu->bandwidth_gbs > 0 && !t->state.is_stopped && !t->fold.is_paused;
}

plim_grad_node *tape_node(plim_tape *t);
void tape_put_node(plim_tape *t, plim_grad_node *n);
void tape_finish_unwinding(plim_tape *t); // the exception was handled: its frames are freed
void *tape_take(plim_tape *t, struct tape_pool *pool, size_t bytes);
void tape_put_back(plim_tape *t, struct tape_pool *pool, void *object);

// fold.c
void fold_note_event(plim_tape *t, plim_stream_kind kind, const plim_storage *s);
void fold_note_work(plim_tape *t, fold_work_kind kind, double amount);
void fold_arrive(plim_tape *t, const plim_grad_node *n); // the engine is about to run this node
void fold_fail(plim_tape *t); // something happened in a recorded round that cannot be sent again
void fold_clear(plim_tape *t);
// work.c: adds recorded work to the clock once more.
void work_again(plim_tape *t, const fold_work *w);
// traffic.c: the same for copies.
void traffic_again(plim_tape *t, const fold_work *w);

// pass_replay.c
void pass_note_event(plim_tape *t, uint8_t kind, uint32_t id, uint64_t bytes, uint8_t purpose);
void pass_note_work(plim_tape *t, fold_work w);
void pass_forget_moments(plim_tape *t);               // a step begins
void pass_void(plim_tape *t);                         // this pass cannot be sent again
uint32_t pass_moved(const plim_tape *t, uint32_t id); // the number of an older allocation now
void pass_clear(plim_tape *t);

// checkpoint.c
// Saves x as the node's entry k. Inside a checkpoint, notes its number there instead.
void saved_pack(plim_tape *t, plim_grad_node *n, int k, plim_tensor *x, bool is_output);
// The tensor of an entry that was not saved; recomputes the checkpoint if necessary. The caller owns it.
plim_tensor *saved_unpack(plim_tape *t, plim_grad_node *n, int k);
// Offloading: a copy on the host, and a copy back on the card. The caller owns the result.
plim_tensor *saved_offload(plim_tape *t, const plim_tensor *x);
plim_tensor *saved_fetch(plim_tape *t, const plim_tensor *x);
bool is_offloaded(const plim_tensor *x);
void packed_release(plim_tape *t, struct plim_checkpoint *frame);
void packed_forget(plim_tape *t, struct plim_checkpoint *frame, uint32_t number);
void tape_free_recomputed(plim_tape *t);

#endif
