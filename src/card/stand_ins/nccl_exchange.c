// The ranks map one file. It is sparse: pages that no message touched take no space.
#include "nccl_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "card.h"

double card_exchange_seconds = 60;

#define MOST_MESSAGES 1024u       // in a channel at a time
#define CHANNEL_BYTES (16u << 20) // of the messages in a channel
#define LOOK_NANOSECONDS 50000000 // how often a waiting rank looks whether the other one still runs

enum { ABSENT, PRESENT, LEFT };

typedef struct {
  uint64_t number, offset, bytes;
} message;

// Written by one rank, read by another.
typedef struct {
  uint64_t posted, taken; // messages ever
  message messages[MOST_MESSAGES];
  char data[CHANNEL_BYTES];
} channel;

// On a cache line of its own.
typedef struct {
  uint32_t bell; // increased whenever something happens that the rank may be waiting for
  uint32_t state;
  char rest[56];
} member;

typedef struct {
  uint32_t present; // ranks that have joined so far
  char rest[60];
  member members[]; // then the channels, by channel, sender and receiver
} shared_file;

// What this rank keeps about another one.
typedef struct {
  uint64_t posted[CARD_CHANNELS], taken[CARD_CHANNELS]; // numbers of the last messages
  size_t end[CARD_CHANNELS];                            // of the data in the channel to it
  bool is_late;
} peer;

struct card_exchange {
  shared_file *file;
  size_t bytes;
  int descriptor; // holds this rank's lock; -1: all ranks are of this process
  int size, rank;
  peer peers[];
};

card_exchange_name card_exchange_new_name(void) {
  static uint64_t calls;
  card_exchange_name name;
  if (getrandom(&name, sizeof name, 0) == (ssize_t)sizeof name) return name;
  uint64_t parts[2] = {(uint64_t)getpid() << 32 | (uint64_t)time(NULL),
                       __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED)};
  memcpy(&name, parts, sizeof name);
  return name;
}

// ---- opening and closing --------------------------------------------------------------------------------

static size_t channels_start(int size) {
  return (sizeof(shared_file) + (size_t)size * sizeof(member) + 4095) / 4096 * 4096;
}

static channel *channel_of(const card_exchange *x, card_channel kind, int from, int to) {
  size_t size = (size_t)x->size, index = ((size_t)kind * size + (size_t)from) * size + (size_t)to;
  return (channel *)((char *)x->file + channels_start(x->size)) + index;
}

static void wake(member *m) {
  __atomic_add_fetch(&m->bell, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &m->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

// Maps the file for one rank, which makes it large enough. NULL: no memory.
static card_exchange *map(int descriptor, int size, int rank) {
  size_t peers = (size_t)size, bytes = CARD_CHANNELS * peers * peers * sizeof(channel);
  card_exchange *x = calloc(1, sizeof *x + peers * sizeof(peer));
  if (!x) return NULL;
  bytes += channels_start(size);
  void *at = MAP_FAILED;
  if (ftruncate(descriptor, (off_t)bytes) == 0)
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (at == MAP_FAILED) return free(x), NULL;
  x->file = at;
  x->bytes = bytes;
  x->descriptor = -1;
  x->size = size;
  x->rank = rank;
  return x;
}

static void join(card_exchange *x) {
  __atomic_store_n(&x->file->members[x->rank].state, PRESENT, __ATOMIC_SEQ_CST);
}

// A rank's lock is on the byte of its number. The system takes it away when the process ends, however that happens.
static struct flock lock_of(int rank) {
  return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

card_exchange *card_exchange_open(const card_exchange_name *name, int size, int rank) {
  const char *folder = card_folder();
  char path[4096], digits[2 * sizeof name->bytes + 1];
  if (!folder || size < 1 || rank < 0 || rank >= size) return NULL;
  for (size_t i = 0; i < sizeof name->bytes; i++)
    snprintf(digits + 2 * i, 3, "%02x", name->bytes[i]);
  int length = snprintf(path, sizeof path, "%s/nccl-%s", folder, digits);
  if (length < 0 || (size_t)length >= sizeof path) return NULL;
  int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return NULL;
  card_exchange *x = map(descriptor, size, rank);
  struct flock lock = lock_of(rank);
  if (!x || fcntl(descriptor, F_SETLK, &lock)) {
    close(descriptor);
    card_exchange_close(x);
    return NULL;
  }
  x->descriptor = descriptor;
  join(x);
  // Nobody else will open the file.
  if (__atomic_add_fetch(&x->file->present, 1, __ATOMIC_SEQ_CST) == (uint32_t)size) unlink(path);
  return x;
}

bool card_exchange_open_all(int size, card_exchange **out) {
  int descriptor = size > 0 ? memfd_create("nccl", MFD_CLOEXEC) : -1, opened = 0;
  if (descriptor < 0) return false;
  for (; opened < size && (out[opened] = map(descriptor, size, opened)); opened++)
    join(out[opened]);
  close(descriptor);
  if (opened == size) return true;
  while (opened) card_exchange_close(out[--opened]);
  return false;
}

void card_exchange_close(card_exchange *x) {
  if (!x) return;
  __atomic_store_n(&x->file->members[x->rank].state, LEFT, __ATOMIC_SEQ_CST);
  for (int i = 0; i < x->size; i++) wake(&x->file->members[i]);
  munmap(x->file, x->bytes);
  if (x->descriptor >= 0) close(x->descriptor);
  free(x);
}

// ---- waiting --------------------------------------------------------------------------------------------

static bool is_gone(const card_exchange *x, int rank) {
  uint32_t state = __atomic_load_n(&x->file->members[rank].state, __ATOMIC_SEQ_CST);
  if (state != PRESENT) return state == LEFT;
  struct flock lock = lock_of(rank);
  return x->descriptor >= 0 && fcntl(x->descriptor, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static uint64_t posted(const channel *c) { return __atomic_load_n(&c->posted, __ATOMIC_SEQ_CST); }
static uint64_t taken(const channel *c) { return __atomic_load_n(&c->taken, __ATOMIC_SEQ_CST); }
static bool has_message(const channel *c) { return posted(c) != taken(c); }
static bool has_room(const channel *c) { return posted(c) - taken(c) < MOST_MESSAGES; }
static bool is_empty(const channel *c) { return !has_message(c); }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Waits until a condition is true for a channel between this rank and another one. Gives up if the other rank has ended or
// does not answer.
static bool wait_until(card_exchange *x, bool (*is_true)(const channel *), const channel *c,
                       int other) {
  member *me = &x->file->members[x->rank];
  double end = now() + card_exchange_seconds;
  for (;;) {
    uint32_t seen = __atomic_load_n(&me->bell, __ATOMIC_SEQ_CST);
    if (is_true(c)) return true;
    if (x->peers[other].is_late) return false;
    if (is_gone(x, other)) return is_true(c); // it may have posted before it ended
    if (now() > end) {
      x->peers[other].is_late = true;
      return false;
    }
    struct timespec pause = {0, LOOK_NANOSECONDS};
    syscall(SYS_futex, &me->bell, FUTEX_WAIT, seen, &pause, NULL, 0);
  }
}

// ---- messages -------------------------------------------------------------------------------------------

bool card_exchange_post(card_exchange *x, card_channel kind, int to, const void *data,
                        size_t bytes) {
  channel *c = channel_of(x, kind, x->rank, to);
  peer *p = &x->peers[to];
  uint64_t number = ++p->posted[kind];
  if (bytes > CHANNEL_BYTES || !wait_until(x, has_room, c, to)) return false;
  // Beginning again whenever the channel is empty touches few pages.
  if (p->end[kind] + bytes > CHANNEL_BYTES && !wait_until(x, is_empty, c, to)) return false;
  if (is_empty(c)) p->end[kind] = 0;
  memcpy(c->data + p->end[kind], data, bytes);
  c->messages[c->posted % MOST_MESSAGES] = (message){number, p->end[kind], bytes};
  p->end[kind] += bytes;
  __atomic_add_fetch(&c->posted, 1, __ATOMIC_SEQ_CST);
  wake(&x->file->members[to]);
  return true;
}

bool card_exchange_take(card_exchange *x, card_channel kind, int from, void *data, size_t bytes) {
  channel *c = channel_of(x, kind, from, x->rank);
  uint64_t number = ++x->peers[from].taken[kind];
  while (wait_until(x, has_message, c, from)) {
    x->peers[from].is_late = false;
    message m = c->messages[c->taken % MOST_MESSAGES];
    if (m.number > number) return false; // its sender gave up sending the message before it
    bool is_it = m.number == number && m.bytes == bytes;
    if (is_it) memcpy(data, c->data + m.offset, bytes);
    __atomic_add_fetch(&c->taken, 1, __ATOMIC_SEQ_CST);
    wake(&x->file->members[from]);
    if (m.number == number) return is_it;
  }
  return false;
}
