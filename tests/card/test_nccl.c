// NCCL between processes: every rank is a process of its own, as torchrun starts them.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "card.h"
#include "folder.h"
#include "nccl_exchange.h"
#include "test.h"

// ---- NCCL's functions, as far as they are called here ---------------------------------------------------

typedef struct {
  char bytes[128];
} unique_id;

int ncclGetUniqueId(unique_id *);
int ncclCommInitRank(void **, int, unique_id, int);
int ncclCommInitAll(void **, int, const int *);
int ncclCommSplit(void *, int, int, void **, void *);
int ncclCommCount(void *, int *);
int ncclCommUserRank(void *, int *);
int ncclCommDestroy(void *);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclRedOpCreatePreMulSum(int *, void *, int, int, void *);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclReduce(const void *, void *, size_t, int, int, int, void *, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
int ncclBcast(void *, size_t, int, int, void *, void *);
int ncclAllGather(const void *, void *, size_t, int, void *, void *);
int ncclReduceScatter(const void *, void *, size_t, int, int, void *, void *);
int ncclAlltoAll(const void *, void *, size_t, int, void *, void *);
int ncclGather(const void *, void *, size_t, int, int, void *, void *);
int ncclScatter(const void *, void *, size_t, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);
int ncclRecv(void *, size_t, int, int, void *, void *);
int cudaEventCreate(void **);
int cudaEventRecord(void *, void *);
int cudaEventQuery(void *);
int cudaEventDestroy(void *);
void plimsoll_card_backward(void);

enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT32 = 7 };
enum { SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE };

// ---- ranks ----------------------------------------------------------------------------------------------

typedef struct {
  int size, rank;
  void *comm;
} ranked;

static char record_path[4096];

static bool open_card(void) {
  static int number;
  char name[32];
  snprintf(name, sizeof name, "run%d/record", number++);
  folder_write_text(name, ""); // makes the folder
  snprintf(record_path, sizeof record_path, "%s", folder_path(name));
  unlink(record_path);
  plim_error error = {0};
  return !card_record_create(record_path, "H100", 4, 4ull << 30, 0, &error) &&
         card_open(record_path);
}

// What went wrong in a rank: its process prints it and ends with 1.
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: rank %d of %d: %s is false: ", __FILE__, __LINE__, r->rank, r->size,          \
             #condition);                                                                          \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
      return false;                                                                                \
    }                                                                                              \
  } while (0)

// Runs a function in `size` processes that share a communicator. Returns how many of them failed.
static int run(int size, bool (*function)(const ranked *)) {
  pid_t children[16];
  unique_id id;
  if (!open_card() || ncclGetUniqueId(&id)) return -1;
  fflush(stdout);
  for (int rank = 0; rank < size; rank++) {
    children[rank] = fork();
    if (children[rank]) continue;
    ranked r = {size, rank, NULL};
    bool is_good = card_open(record_path) && !ncclCommInitRank(&r.comm, size, id, rank) &&
                   function(&r) && !ncclCommDestroy(r.comm);
    fflush(stdout);
    _exit(!is_good);
  }
  int failures = 0, status;
  for (int rank = 0; rank < size; rank++)
    if (waitpid(children[rank], &status, 0) != children[rank] || status) failures++;
  return failures;
}

// Calls of functions that could not be modelled, in all processes.
static uint64_t unmodelled(const char *name) {
  const card_record *record = card_record_here();
  uint64_t calls = 0;
  for (uint32_t i = 0; i < record->process_count; i++)
    for (uint32_t k = 0; k < record->processes[i].unmodelled_count; k++)
      if (!name || !strcmp(record->processes[i].unmodelled[k].name, name))
        calls += record->processes[i].unmodelled[k].calls;
  return calls;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// ---- the collectives ------------------------------------------------------------------------------------

static const size_t widths[] = {1, 1, 4, 4, 8, 8};

static void put(void *array, int type, size_t i, int64_t value) {
  memcpy((char *)array + i * widths[type], &value, widths[type]); // little-endian
}

static int64_t get(const void *array, int type, size_t i) {
  const char *at = (const char *)array + i * widths[type];
  switch (type) {
  case INT8: return *(const int8_t *)at;
  case UINT8: return *(const uint8_t *)at;
  case INT32: return *(const int32_t *)at;
  case UINT32: return *(const uint32_t *)at;
  default: return *(const int64_t *)at;
  }
}

// A rank's contribution; the signed types have negative ones.
static int64_t value_of(int type, int rank, int i) {
  bool is_signed = type == INT8 || type == INT32 || type == INT64;
  return (is_signed ? -2 : 1) + 3 * rank + i;
}

static int64_t combined(int type, int operation, int size, int i) {
  int64_t result = value_of(type, 0, i);
  for (int rank = 1; rank < size; rank++) {
    int64_t v = value_of(type, rank, i);
    if (operation == PRODUCT) result *= v;
    else if (operation == MAXIMUM) result = result > v ? result : v;
    else if (operation == MINIMUM) result = result < v ? result : v;
    else result += v;
  }
  return operation == AVERAGE ? result / size : result;
}

// The value that the type can hold.
static int64_t in_type(int type, int64_t value) {
  int64_t bits = 0;
  put(&bits, type, 0, value);
  return get(&bits, type, 0);
}

static bool reductions(const ranked *r) {
  int64_t mine[8], all[8];
  for (int type = INT8; type <= UINT64; type++)
    for (int operation = SUM; operation <= AVERAGE; operation++) {
      for (int i = 0; i < 3; i++) put(mine, type, (size_t)i, value_of(type, r->rank, i));
      EXPECT(!ncclAllReduce(mine, all, 3, type, operation, r->comm, NULL), "all-reduce");
      for (int i = 0; i < 3; i++) {
        int64_t want = in_type(type, combined(type, operation, r->size, i));
        EXPECT(get(all, type, (size_t)i) == want, "type %d, operation %d: %" PRId64, type,
               operation, get(all, type, (size_t)i));
      }
      EXPECT(!ncclReduce(mine, mine, 3, type, operation, 1, r->comm, NULL), "in place, to rank 1");
      EXPECT(get(mine, type, 2) == (r->rank == 1 ? get(all, type, 2) : value_of(type, r->rank, 2)),
             "only rank 1 gets it");
    }
  return true;
}

static bool movements(const ranked *r) {
  int64_t mine[4], all[4];
  for (int type = INT8; type <= UINT64; type++) {
    int n = r->size;
    put(mine, type, 0, 10 + r->rank);
    EXPECT(!ncclAllGather(mine, all, 1, type, r->comm, NULL), "all-gather");
    for (int i = 0; i < n; i++) EXPECT(get(all, type, (size_t)i) == 10 + i, "type %d", type);
    EXPECT(!ncclBroadcast(mine, all, 1, type, n - 1, r->comm, NULL), "broadcast");
    EXPECT(get(all, type, 0) == 10 + n - 1, "from the last rank");
    EXPECT(!ncclBcast(mine, 1, type, 0, r->comm, NULL) && get(mine, type, 0) == 10, "in place");
    for (int i = 0; i < n; i++) put(mine, type, (size_t)i, 10 * r->rank + i);
    EXPECT(!ncclReduceScatter(mine, all, 1, type, MAXIMUM, r->comm, NULL), "reduce-scatter");
    EXPECT(get(all, type, 0) == 10 * (n - 1) + r->rank, "%" PRId64, get(all, type, 0));
    EXPECT(!ncclAlltoAll(mine, all, 1, type, r->comm, NULL), "all-to-all");
    for (int i = 0; i < n; i++) EXPECT(get(all, type, (size_t)i) == 10 * i + r->rank, "%d", i);
    EXPECT(!ncclScatter(r->rank == 1 ? mine : NULL, all, 1, type, 1, r->comm, NULL), "scatter");
    EXPECT(get(all, type, 0) == 10 + r->rank, "%" PRId64, get(all, type, 0));
    memset(all, 0, sizeof all);
    EXPECT(!ncclGather(mine, r->rank ? NULL : all, 1, type, 0, r->comm, NULL), "gather");
    for (int i = 0; i < n; i++)
      EXPECT(get(all, type, (size_t)i) == (r->rank ? 0 : 10 * i), "only rank 0 gets it");
  }
  return true;
}

TEST(integers_of_every_type_are_reduced) {
  int two = run(2, reductions), four = run(4, reductions);
  CHECK(two == 0 && four == 0 && unmodelled(NULL) == 0, "%d %d", two, four);
}

TEST(integers_of_every_type_are_moved) {
  int two = run(2, movements), four = run(4, movements);
  CHECK(two == 0 && four == 0 && unmodelled(NULL) == 0, "%d %d", two, four);
}

// A file remains only until all ranks have opened it.
TEST(no_file_is_left) {
  CHECK(run(4, movements) == 0, "ranks");
  DIR *folder = opendir(card_folder());
  CHECK(folder, "%s", card_folder());
  int files = 0;
  for (struct dirent *entry; (entry = readdir(folder));) files += entry->d_name[0] != '.';
  closedir(folder);
  CHECK(files == 1, "only the record: %d", files);
}

static bool largest_and_larger(const ranked *r) {
  size_t bytes = 1 << 20;
  char *mine = malloc(2 * bytes), *all = calloc(2, bytes + 1);
  EXPECT(mine && all, "memory");
  memset(mine, 'a' + r->rank, bytes + 1);
  for (int i = 0; i < 40; i++) // more than a channel holds
    EXPECT(!ncclAllGather(mine, all, bytes, UINT8, r->comm, NULL), "1 MiB");
  EXPECT(all[0] == 'a' && all[bytes - 1] == 'a' && all[bytes] == 'b' && all[2 * bytes - 1] == 'b',
         "of both ranks");
  EXPECT(!ncclAllGather(mine, all, bytes + 1, UINT8, r->comm, NULL), "more");
  EXPECT(all[0] == 'a' + r->rank && all[bytes + 1] == 'a' + r->rank, "is this rank's own");
  float number = 2.5f * (float)(r->rank + 1), sum = 0;
  EXPECT(!ncclAllReduce(&number, &sum, 1, FLOAT32, SUM, r->comm, NULL) && sum == number, "floats");
  int operation = 0;
  EXPECT(!ncclRedOpCreatePreMulSum(&operation, NULL, INT32, 0, r->comm) && operation > AVERAGE,
         "an operation of the program");
  EXPECT(!ncclAllReduce(mine, all, 1, INT32, operation, r->comm, NULL) && all[0] == mine[0], "own");
  free(mine), free(all);
  return true;
}

TEST(floats_and_large_data_are_the_process_s_own) {
  CHECK(run(2, largest_and_larger) == 0, "ranks");
  CHECK(unmodelled("ncclAllReduce of integers with a user-defined operation") == 2 &&
            unmodelled(NULL) == 2,
        "%" PRIu64, unmodelled(NULL));
}

// ---- sends, receives, groups ----------------------------------------------------------------------------

static bool pairs(const ranked *r) {
  int64_t mine[4], got[4] = {0};
  int next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
  for (int i = 0; i < r->size; i++) mine[i] = 100 * r->rank + i;
  EXPECT(!ncclSend(mine, 2, INT64, next, r->comm, NULL), "a ring of sends");
  EXPECT(!ncclRecv(got, 2, INT64, before, r->comm, NULL) && got[1] == 100 * before + 1, "%" PRId64,
         got[1]);
  ncclGroupStart();
  ncclGroupStart();
  for (int i = 0; i < r->size; i++) { // to itself too, as PyTorch's all-to-all does
    EXPECT(!ncclRecv(&got[i], 1, INT64, i, r->comm, NULL), "received");
    EXPECT(!ncclSend(&mine[i], 1, INT64, i, r->comm, NULL), "sent");
  }
  EXPECT(!ncclGroupEnd() && !ncclGroupEnd(), "the end of a group within a group");
  for (int i = 0; i < r->size; i++) EXPECT(got[i] == 100 * i + r->rank, "%" PRId64, got[i]);
  return true;
}

TEST(sends_and_receives_in_a_group_are_an_all_to_all) {
  int two = run(2, pairs), four = run(4, pairs);
  CHECK(two == 0 && four == 0 && unmodelled(NULL) == 0, "%d %d", two, four);
}

// Collectives and sends of one group are told apart, whatever their order is.
static bool mixed(const ranked *r) {
  int64_t mine = r->rank + 1, sums[300], got = 0, maximum = 0;
  int other = 1 - r->rank;
  ncclGroupStart();
  if (r->rank) EXPECT(!ncclRecv(&got, 1, INT64, other, r->comm, NULL), "first");
  for (int i = 0; i < 300; i++)
    EXPECT(!ncclAllReduce(&mine, &sums[i], 1, INT64, SUM, r->comm, NULL), "sum");
  EXPECT(!ncclAllReduce(&mine, &maximum, 1, INT64, MAXIMUM, r->comm, NULL), "maximum");
  if (!r->rank) EXPECT(!ncclSend(&mine, 1, INT64, other, r->comm, NULL), "last");
  EXPECT(!ncclGroupEnd(), "end");
  EXPECT(sums[0] == 3 && sums[299] == 3 && maximum == 2 && got == r->rank, "%" PRId64, got);
  return true;
}

TEST(a_group_may_mix_them) { CHECK(run(2, mixed) == 0 && unmodelled(NULL) == 0, "ranks"); }

TEST(one_process_may_have_all_ranks) {
  void *comms[3];
  int64_t values[3] = {5, 6, 7}, sums[3];
  int devices[3] = {0, 1, 2};
  CHECK(open_card() && !ncclCommInitAll(comms, 3, devices), "three devices");
  ncclGroupStart();
  for (int i = 0; i < 3; i++) ncclAllReduce(&values[i], &sums[i], 1, INT64, SUM, comms[i], NULL);
  for (int i = 0; i < 3; i++) ncclBcast(&values[i], 1, INT64, 2, comms[i], NULL);
  CHECK(!ncclGroupEnd() && unmodelled(NULL) == 0, "end");
  for (int i = 0; i < 3; i++) CHECK(sums[i] == 18 && values[i] == 7, "%" PRId64, sums[i]);
  for (int i = 0; i < 3; i++) CHECK(!ncclCommDestroy(comms[i]), "destroyed");
}

// ---- several communicators ------------------------------------------------------------------------------

static bool split(const ranked *r) {
  void *part = NULL, *inner = NULL;
  int size, rank;
  int64_t mine = 10 * r->rank, sum = 0;
  // Ranks 0 and 3 are one part, 1 and 2 the other; the key turns their order round.
  int color = r->rank == 0 || r->rank == 3;
  EXPECT(!ncclCommSplit(r->comm, color, -r->rank, &part, NULL) && part, "split");
  EXPECT(!ncclCommCount(part, &size) && !ncclCommUserRank(part, &rank), "size and rank");
  EXPECT(size == 2 && rank == (r->rank == 0 || r->rank == 1), "%d of %d", rank, size);
  EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, part, NULL) && sum == 30, "%" PRId64, sum);
  EXPECT(!ncclBroadcast(&mine, &sum, 1, INT64, 0, part, NULL), "from the last of each part");
  EXPECT(sum == (color ? 30 : 20), "%" PRId64, sum);
  EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, r->comm, NULL) && sum == 60, "all of them");
  EXPECT(!ncclCommSplit(r->comm, r->rank ? -1 : 0, 0, &inner, NULL), "a part of one rank");
  EXPECT((inner != NULL) == (r->rank == 0), "the others get none");
  if (inner) EXPECT(!ncclCommCount(inner, &size) && size == 1, "%d", size);
  if (inner) ncclCommDestroy(inner);
  return !ncclCommDestroy(part);
}

TEST(a_part_has_its_own_size_and_ranks) {
  CHECK(run(4, split) == 0 && unmodelled(NULL) == 0, "ranks");
}

typedef struct {
  void *comm;
  int rank, failures;
} worker;

static void *reduce_many(void *context) {
  worker *w = context;
  for (int64_t i = 0; i < 500; i++) {
    int64_t mine = i * (w->rank + 1), sum = 0;
    ncclGroupStart();
    int failure = ncclAllReduce(&mine, &sum, 1, INT64, SUM, w->comm, NULL);
    if (ncclGroupEnd() || failure || sum != 3 * i) w->failures++;
  }
  return NULL;
}

// As autograd's thread and the program's: each has a communicator of its own.
static bool two_threads(const ranked *r) {
  worker workers[2] = {{r->comm, r->rank, 0}, {NULL, r->rank, 0}};
  pthread_t threads[2];
  EXPECT(!ncclCommSplit(r->comm, 0, r->rank, &workers[1].comm, NULL), "a second one");
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, reduce_many, &workers[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  EXPECT(workers[0].failures == 0 && workers[1].failures == 0, "%d", workers[0].failures);
  return !ncclCommDestroy(workers[1].comm);
}

TEST(two_communicators_at_once) {
  CHECK(run(2, two_threads) == 0 && unmodelled(NULL) == 0, "ranks");
}

static bool long_run(const ranked *r) {
  for (int64_t i = 0; i < 10000; i++) {
    int64_t mine = i + r->rank, sum = 0;
    EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, r->comm, NULL), "%" PRId64, i);
    EXPECT(sum == i * r->size + r->size * (r->size - 1) / 2, "%" PRId64, sum);
  }
  return true;
}

TEST(ten_thousand_reductions) {
  double start = seconds();
  int failures = run(4, long_run);
  CHECK(failures == 0 && unmodelled(NULL) == 0, "%d", failures);
  CHECK(seconds() - start < 60, "%.1f s", seconds() - start);
}

// ---- ranks that do not answer ---------------------------------------------------------------------------

static bool with_a_dead_rank(const ranked *r) {
  int64_t mine = r->rank + 1, all[3] = {0};
  EXPECT(!ncclAllGather(&mine, all, 1, INT64, r->comm, NULL) && all[2] == 3, "all three");
  if (r->rank == 1) {
    ncclAllGather(&mine, all, 1, INT64, r->comm, NULL); // what it posted before it ended arrives
    kill(getpid(), SIGKILL);
  }
  double start = seconds();
  EXPECT(!ncclAllGather(&mine, all, 1, INT64, r->comm, NULL) && all[1] == 2, "its last words");
  for (int i = 0; i < 3; i++) {
    EXPECT(!ncclAllGather(&mine, all, 1, INT64, r->comm, NULL), "without it");
    EXPECT(all[0] == 1 && all[1] == mine && all[2] == 3, "its place has this rank's own data");
  }
  EXPECT(seconds() - start < 20, "nobody waits for it: %.1f s", seconds() - start);
  return true;
}

TEST(a_rank_that_died_is_not_waited_for) {
  int failures = run(3, with_a_dead_rank);
  CHECK(failures == 1, "only the killed one: %d", failures);
  CHECK(unmodelled("ncclAllGather: another rank did not answer") == 6, "%" PRIu64,
        unmodelled(NULL));
}

static int to_late[2],
    from_late[2]; // pipes: rank 1 is late until rank 0 says so, and the other way round

static void say(const int *ends) {
  if (write(ends[1], "x", 1) != 1) _exit(1);
}

static void hear(const int *ends) {
  char byte;
  if (read(ends[0], &byte, 1) != 1) _exit(1);
}

static bool with_a_late_rank(const ranked *r) {
  int64_t mine = r->rank + 1, sum = 0;
  if (r->rank == 0) {
    card_exchange_seconds = 0.2;
    double start = seconds();
    for (int i = 0; i < 50; i++)
      EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, r->comm, NULL) && sum == 2,
             "its own twice: %" PRId64, sum);
    EXPECT(seconds() - start < 5, "waited once, not 50 times: %.1f s", seconds() - start);
    card_exchange_seconds = 60;
    say(to_late);
    hear(from_late);
  } else {
    hear(to_late);
    for (int i = 0; i < 50; i++)
      EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, r->comm, NULL) && sum == 3,
             "what rank 0 posted is there: %" PRId64, sum);
    say(from_late);
  }
  mine = 1000 * (r->rank + 1); // what rank 1 posted too late is dropped
  EXPECT(!ncclAllReduce(&mine, &sum, 1, INT64, SUM, r->comm, NULL) && sum == 3000, "%" PRId64, sum);
  return true;
}

TEST(a_late_rank_finds_its_place_again) {
  CHECK(!pipe(to_late) && !pipe(from_late), "pipes");
  int failures = run(2, with_a_late_rank);
  CHECK(failures == 0, "%d", failures);
  CHECK(unmodelled("ncclAllReduce: another rank did not answer") == 50, "%" PRIu64,
        unmodelled(NULL));
  for (int i = 0; i < 2; i++) close(to_late[i]), close(from_late[i]);
}

static bool never_joins(const ranked *r) {
  void *part = NULL;
  int size = 0;
  card_exchange_seconds = 0.2;
  if (r->rank == 1) return true;
  EXPECT(!ncclCommSplit(r->comm, 0, 0, &part, NULL) && part, "a split that rank 1 misses");
  EXPECT(!ncclCommCount(part, &size) && size == 2, "%d", size);
  return !ncclCommDestroy(part);
}

TEST(a_split_without_all_ranks_is_noted) {
  CHECK(run(2, never_joins) == 0, "ranks");
  CHECK(unmodelled("ncclCommSplit: another rank did not answer") == 1, "noted");
}

// With --world the other ranks do not exist: this rank's data stand for theirs, and nothing is waited for or noted.
static int alone(void) {
  enum { WORLD = 256 }; // a number that a byte does not hold
  unique_id id;
  void *comm = NULL;
  int64_t three = 3, sum = 0, all[WORLD] = {0};
  setenv("PLIMSOLL_WORLD", "256", 1);
  bool ok = open_card() && !ncclGetUniqueId(&id) && !ncclCommInitRank(&comm, WORLD, id, 0);
  ok = ok && !ncclAllReduce(&three, &sum, 1, INT64, SUM, comm, NULL);
  ok = ok && !ncclAllGather(&three, all, 1, INT64, comm, NULL);
  for (int i = 0; i < WORLD; i++) ok = ok && all[i] == 3;
  int8_t none = 0, average = 1;
  ok = ok && !ncclAllReduce(&none, &average, 1, INT8, AVERAGE, comm, NULL) && average == 0;
  bool is_noted = card_process_here()->unmodelled_count > 0;
  ok = ok && !ncclAllReduce(&three, &sum, 0, 40, SUM, comm, NULL) &&
       strstr(card_process_here()->unmodelled[0].name, "type that is not known");
  unsetenv("PLIMSOLL_WORLD");
  ncclCommDestroy(comm);
  return !ok ? 1 : sum != 3 * WORLD ? 2 : is_noted ? 3 : 0;
}

TEST(one_rank_stands_for_all) {
  double began = (double)time(NULL);
  int result = alone();
  CHECK(result == 0, "%d", result);
  CHECK((double)time(NULL) - began < 10, "it waited");
}

TEST(identifiers_are_unique) {
  unique_id a, b;
  CHECK(!ncclGetUniqueId(&a) && !ncclGetUniqueId(&b) && memcmp(&a, &b, sizeof a) != 0, "two");
}

// ---- PyTorch's watchdog ---------------------------------------------------------------------------------

enum { READY = 0, NOT_READY = 600 };

typedef struct {
  void *event;
  int answer;     // to the last question; -1: not asked yet
  bool has_given; // the tensors away
  bool is_idle;   // it does not ask
  bool has_clock; // it sleeps by the clock that new builds of PyTorch use
  bool is_ended;
} watchdog;

// Asks for an event as PyTorch's thread does, until it is done.
static void *watch(void *context) {
  watchdog *w = context;
  pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  while (!__atomic_load_n(&w->is_ended, __ATOMIC_SEQ_CST) && !w->has_given) {
    if (!w->is_idle) __atomic_store_n(&w->answer, cudaEventQuery(w->event), __ATOMIC_SEQ_CST);
    if (w->answer == READY) {
      nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL); // a busy machine
      __atomic_store_n(&w->has_given, true, __ATOMIC_SEQ_CST);
    }
    struct timespec until;
    clock_gettime(w->has_clock ? CLOCK_MONOTONIC : CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000; // as PyTorch's does
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (w->has_clock) pthread_cond_clockwait(&never, &mutex, CLOCK_MONOTONIC, &until);
    else pthread_cond_timedwait(&never, &mutex, &until);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

// Waits for this answer; returns the last one.
static int answer_of(watchdog *w, int wanted) {
  int answer;
  double end = seconds() + 60;
  while ((answer = __atomic_load_n(&w->answer, __ATOMIC_SEQ_CST)) != wanted && seconds() < end)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  return answer;
}

// A collective and its event, with a watchdog that asks for it.
static bool start_watched(watchdog *w, bool is_idle, pthread_t *thread, void **comm) {
  static bool has_clock;
  float data[4] = {0};
  has_clock = !has_clock; // one after the other
  *w = (watchdog){.answer = -1, .is_idle = is_idle, .has_clock = has_clock};
  return open_card() && !ncclCommInitAll(comm, 1, NULL) && !cudaEventCreate(&w->event) &&
         !ncclAllReduce(data, data, 4, FLOAT32, SUM, *comm, NULL) &&
         !cudaEventRecord(w->event, NULL) && !pthread_create(thread, NULL, watch, w);
}

static void end_watched(watchdog *w, pthread_t thread) {
  __atomic_store_n(&w->is_ended, true, __ATOMIC_SEQ_CST);
  pthread_join(thread, NULL);
}

TEST(the_watchdog_sees_a_collective_done_when_the_next_backward_pass_begins) {
  for (int i = 0; i < 2; i++) { // with either clock
    watchdog w;
    pthread_t thread;
    void *comm = NULL;
    CHECK(start_watched(&w, false, &thread, &comm), "a collective");
    CHECK(answer_of(&w, NOT_READY) == NOT_READY, "the watchdog was told %d", w.answer);
    CHECK(cudaEventQuery(w.event) == READY, "this thread sees it done at once");
    plimsoll_card_backward();
    CHECK(__atomic_load_n(&w.has_given, __ATOMIC_SEQ_CST),
          "backward returned before the watchdog had given the tensors away");
    end_watched(&w, thread);
    ncclCommDestroy(comm);
  }
}

TEST(the_watchdog_sees_collectives_done_when_their_communicator_ends) {
  watchdog w;
  pthread_t thread;
  void *comm = NULL;
  CHECK(start_watched(&w, false, &thread, &comm), "a collective");
  CHECK(answer_of(&w, NOT_READY) == NOT_READY, "the watchdog was told %d", w.answer);
  ncclCommDestroy(comm);
  CHECK(answer_of(&w, READY) == READY, "the watchdog was told %d", w.answer);
  end_watched(&w, thread);
}

TEST(other_events_are_done_at_once) {
  watchdog w;
  pthread_t thread;
  void *comm = NULL;
  CHECK(start_watched(&w, false, &thread, &comm), "a collective");
  CHECK(answer_of(&w, NOT_READY) == NOT_READY, "the watchdog was told %d", w.answer);
  cudaEventRecord(w.event, NULL); // the same event, not of a collective
  CHECK(answer_of(&w, READY) == READY, "the watchdog was told %d", w.answer);
  end_watched(&w, thread);
  plimsoll_card_backward(); // there is nothing to wait for
  ncclCommDestroy(comm);
}

TEST(a_backward_pass_does_not_wait_for_ever) {
  watchdog w;
  pthread_t thread;
  void *comm = NULL;
  CHECK(start_watched(&w, false, &thread, &comm), "a collective");
  answer_of(&w, NOT_READY);
  end_watched(&w, thread); // nobody asks any more
  plimsoll_card_backward();
  cudaEventDestroy(w.event);
  ncclCommDestroy(comm);
  CHECK(start_watched(&w, true, &thread, &comm), "a watchdog that does not ask");
  double start = seconds();
  plimsoll_card_backward();
  CHECK(seconds() - start < 30, "it waited %.1f s", seconds() - start);
  end_watched(&w, thread);
  cudaEventDestroy(w.event);
  ncclCommDestroy(comm);
}

static bool is_ending; // in the process that ends
static bool
    is_gone; // what the watchdog asks, as PyTorch's globals are when their destructors have run

__attribute__((destructor)) static void destroy_globals(void) {
  if (!is_ending) return;
  is_gone = true;
  nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL); // four rounds of a watchdog
}

static void *ask_globals(void *context) {
  pthread_setname_np(pthread_self(), "pt_nccl_watchdg");
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (int *rounds = context;; __atomic_add_fetch(rounds, 1, __ATOMIC_SEQ_CST)) {
    if (__atomic_load_n(&is_gone, __ATOMIC_SEQ_CST)) abort();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 10000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&never, &mutex, &until);
  }
  return NULL;
}

TEST(a_watchdog_asks_nothing_when_the_program_ends) {
  pid_t child = fork();
  if (child == 0) {
    int rounds = 0;
    pthread_t thread;
    is_ending = true;
    if (pthread_create(&thread, NULL, ask_globals, &rounds)) _exit(1);
    while (__atomic_load_n(&rounds, __ATOMIC_SEQ_CST) < 3)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    exit(0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child, "a process");
  CHECK(status == 0, "the status is %#x", status);
}

int main(int argc, char **argv) {
  folder_make();
  int result = test_main(argc, argv);
  folder_remove();
  return result;
}
