// Batches of samples of different lengths: the mean length of a padded batch, compared with all batches there are.
#include <math.h>

#include "lengths.h"
#include "test.h"

// The mean of the longest over all batches of three, counted one by one.
static double of_all_triples(const plim_lengths *l, int64_t most) {
  double sum = 0;
  int count = 0;
  for (size_t a = 0; a < l->count; a++)
    for (size_t b = a + 1; b < l->count; b++)
      for (size_t c = b + 1; c < l->count; c++) {
        sum += (double)(l->at[c] < most ? l->at[c] : most);
        count++;
      }
  return sum / count;
}

TEST(a_padded_batch_is_as_long_as_its_longest_sample) {
  int64_t at[] = {900, 5, 17, 17, 300, 44, 8};
  plim_lengths l = {at, 7};
  plim_lengths_sort(&l);
  CHECK(l.at[0] == 5 && l.at[6] == 900, "not sorted");
  for (int64_t most = 10; most <= 1000; most += 90)
    CHECK(fabs(plim_lengths_padded(&l, 3, most) - of_all_triples(&l, most)) < 1e-9, "%lld: %f",
          (long long)most, plim_lengths_padded(&l, 3, most));
  CHECK(fabs(plim_lengths_padded(&l, 1, 1000) - plim_lengths_mean(&l, 1000)) < 1e-9, "one sample");
  CHECK(plim_lengths_padded(&l, 7, 1000) == 900 && plim_lengths_padded(&l, 99, 1000) == 900, "all");
  CHECK(plim_lengths_longest(&l, 512) == 512 && plim_lengths_longest(&l, 4096) == 900, "cut");
}

TEST_MAIN
