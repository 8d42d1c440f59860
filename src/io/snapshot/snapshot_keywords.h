// The keywords of a snapshot: keys, actions, states. They are interned first and in this order, so that the number of a
// word is its string id, and no text has to be compared while reading.
#ifndef PLIM_IO_SNAPSHOT_KEYWORDS_H
#define PLIM_IO_SNAPSHOT_KEYWORDS_H

// clang-format off
#define PLIM_WORDS(W)                                                                              \
  /* top level */                                                                                  \
  W(segments) W(device_traces) W(allocator_settings) W(external_annotations)                       \
  W(host_segments) W(host_traces)                                                                  \
  /* trace entries */                                                                              \
  W(action) W(addr) W(device_free) W(size) W(stream) W(time_us) W(pool_id) W(frames)               \
  /* frames */                                                                                     \
  W(filename) W(line) W(name)                                                                      \
  /* segments and blocks; real_size and history are the old way to say requested_size */           \
  W(device) W(address) W(total_size) W(segment_type) W(segment_pool_id) W(is_expandable) W(blocks) \
  W(requested_size) W(state) W(history) W(real_size)                                               \
  /* annotations and settings */                                                                   \
  W(stage) W(START) W(END) W(PYTORCH_CUDA_ALLOC_CONF) W(PYTORCH_ALLOC_CONF) W(max_split_size)      \
  W(garbage_collection_threshold) W(expandable_segments) W(roundup_power2_divisions)               \
  /* actions */                                                                                    \
  W(alloc) W(free_requested) W(free_completed) W(free) W(segment_alloc) W(segment_free)            \
  W(segment_map) W(segment_unmap) W(oom) W(snapshot) W(annotate)                                   \
  /* segment types and block states */                                                             \
  W(large) W(active_allocated) W(active_pending_free) W(active_awaiting_free) W(inactive)
// clang-format on

#define PLIM_WORD_ENUM(word) WORD_##word,
enum plim_word { PLIM_WORDS(PLIM_WORD_ENUM) WORD_COUNT };

#endif
