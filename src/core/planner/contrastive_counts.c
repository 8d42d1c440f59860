// Numbers of sequences for losses that compare sequences: anchors with their positives and negatives and with the other
// sequences of the same forward pass.
#include "plan_impl.h"

int64_t plim_sequences_per_anchor(int64_t positives, int64_t negatives) {
  return 1 + (positives > 0) + negatives;
}

int64_t plim_choice_sequences(const plim_choice *choice) {
  return plim_sequences_per_anchor(choice->at[PLIM_KNOB_POSITIVES],
                                   choice->at[PLIM_KNOB_NEGATIVES]);
}

plim_domain plim_fewer_per_anchor(int64_t own) {
  static const int quarters[] = {3, 2, 1};
  plim_domain d = {1, {own}};
  for (size_t i = 0; i < sizeof quarters / sizeof *quarters; i++) {
    int64_t fewer = own * quarters[i] / 4;
    if (fewer >= 1 && fewer < d.at[d.count - 1]) d.at[d.count++] = fewer;
  }
  return d;
}
