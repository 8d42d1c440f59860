// Written by tests/torch/times.py --write: how far the seconds per step were off at most, as a factor, and on how many
// recorded runs of one card (H200).
#ifndef PLIM_STEP_TIME_ERROR_H
#define PLIM_STEP_TIME_ERROR_H

#define STEP_TIME_WORST 1.6
#define STEP_TIME_RUNS 13

#endif
