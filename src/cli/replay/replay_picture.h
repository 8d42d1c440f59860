// The picture of a recording.
#ifndef PLIM_CLI_REPLAY_PICTURE_H
#define PLIM_CLI_REPLAY_PICTURE_H

#include "picture_options.h"
#include "replay_result.h"

// What is drawn, all borrowed.
typedef struct {
  const char *path;     // of the snapshot
  const char *settings; // that were simulated
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  const plim_timeline *timeline;
  uint64_t limit_bytes;          // PLIM_UNKNOWN: none
  char subtitle[256], peak[200]; // to be filled in
} replay_scene;

// The picture borrows from the scene.
picture replay_picture(replay_scene *scene);

// Draws one picture of a replay_result, for picture_draw.
plim_err replay_draw(const void *result, const picture_request *wanted, plim_error *error);

#endif
