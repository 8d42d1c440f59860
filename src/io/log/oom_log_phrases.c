// The phrases by which a lack of memory is recognised, and an automaton (Aho and Corasick) that finds all of them in one
// pass over the log. Blanks are skipped, so a phrase is found however a terminal has wrapped it.
#include <stdlib.h>
#include <string.h>

#include "oom_log_impl.h"
#include "vec.h"

// Sources: c10/cuda, c10/xpu, c10/core of PyTorch; NCCL's alloc.h; bitsandbytes' pythonInterface; jaxlib, TensorFlow's
// bfc_allocator, ggml-cuda; accelerate's utils/memory.py; the kernel's oom_kill.c; Slurm's cgroup plugin.
static const log_phrase phrases[] = {
    {"outofmemory.triedtoallocate", PLIM_OOM_ALLOCATOR, LOG_STRONG, 0},
    {"cudaoutofmemory", PLIM_OOM_ALLOCATOR, LOG_STRONG, LOG_MENTION},
    {"hipoutofmemory", PLIM_OOM_ALLOCATOR, LOG_STRONG, LOG_MENTION},
    {"wouldexceedallowedmemory", PLIM_OOM_ASYNC, LOG_STRONG, 0},
    {"outofmemoryerror:allocationondevice", PLIM_OOM_ASYNC, LOG_STRONG, 0}, // its short form
    {"mpsbackendoutofmemory", PLIM_OOM_MPS, LOG_STRONG, 0},
    {"cudaerror:outofmemory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"hip_error_outofmemory", PLIM_OOM_DRIVER, LOG_WEAK, 0},
    {"hiperror:outofmemory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"cudadrivererror:outofmemory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"cudaruntimeerror(2):outofmemory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"cudaerrormemoryallocation", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"cudamallocretryfailed:outofmemory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"outofmemoryallocating", PLIM_OOM_DRIVER, LOG_STRONG, 0}, // CuPy
    {"outofmemoryerrorongpu", PLIM_OOM_DRIVER, LOG_STRONG, 0}, // PaddlePaddle
    {"hsa_status_error_out_of_resources", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"ur_result_error_out_of_device_memory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"ur_result_error_out_of_resources", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"outofdevicememory", PLIM_OOM_DRIVER, LOG_STRONG, 0},                        // Intel
    {"memory_allocation_failure(", PLIM_OOM_DRIVER, LOG_STRONG, 0},               // Ascend
    {"pt_devmemallocationfailed", PLIM_OOM_DRIVER, LOG_STRONG, 0},                // Gaudi
    {"failedtoallocatememoryforrequestedbuffer", PLIM_OOM_DRIVER, LOG_STRONG, 0}, // ONNX Runtime
    {"cuda_error_out_of_memory", PLIM_OOM_DRIVER, LOG_WEAK, 0}, // TensorFlow tries again with less
    {"_status_alloc_failed", PLIM_OOM_BLAS, LOG_STRONG, 0},
    {"cufft_alloc_failed", PLIM_OOM_BLAS, LOG_STRONG, 0},
    {"internal_error_device_allocation_failed", PLIM_OOM_BLAS, LOG_STRONG, 0}, // cuDNN 9
    {"cublas_status_not_initialized", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0},
    {"cudnn_status_not_initialized", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0},
    {"cudnnerror:cudnn_status_not_supported.", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0},
    {"unabletofindavalidcudnnalgorithm", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0},
    {"unabletofindanenginetoexecute", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0}, // cuDNN 8 and later
    {"_status_insufficient_resources", PLIM_OOM_BLAS_MAYBE, LOG_WEAK, 0},
    {"failedtocudacalloc", PLIM_OOM_NCCL, LOG_STRONG, 0},
    {"failedtocudamalloc", PLIM_OOM_NCCL, LOG_STRONG, 0},
    {"cudafailure2'outofmemory'", PLIM_OOM_NCCL, LOG_STRONG, 0},
    {"cudafailure'outofmemory'", PLIM_OOM_NCCL, LOG_STRONG, 0},
    {"erroroutofmemoryatline", PLIM_OOM_BITSANDBYTES, LOG_STRONG, 0},
    {"defaultcpuallocator:can'tallocatememory", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"defaultcpuallocator:notenoughmemory", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"arraymemoryerror:unabletoallocate", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"memoryerror:unabletoallocate", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"[errno12]cannotallocatememory", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"notenoughmemory:youtriedtoallocate", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},
    {"internal_error_host_allocation_failed", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0}, // cuDNN 9
    {"failedtocudahostalloc", PLIM_OOM_HOST_REQUEST, LOG_STRONG, 0},   // NCCL's pinned memory
    {"cannotallocatememory", PLIM_OOM_HOST_REQUEST, LOG_WEAK, 0},      // ENOMEM, in anybody's words
    {"memoryallocationof", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_KILLED}, // Rust
    {"std::bad_alloc", PLIM_OOM_HOST_REQUEST, LOG_WEAK, 0}, // RAPIDS goes on: it means the GPU
    {"std::bad_alloc:out_of_memory", PLIM_OOM_DRIVER, LOG_STRONG, 0},
    {"outofmemory:killedprocess", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"outofmemory:killprocess", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0}, // before Linux 4.20
    {"oom-kill:constraint=", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"oom-killevent", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"oom_killevent", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"cgroupout-of-memoryhandler", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"oomkilled", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"out_of_memory(exitcode0)", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},       // Slurm's mail
    {"thenoderunninglowonmemory", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},      // Ray
    {"killedduetomemorypressure", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},      // Ray
    {"duetomemorypressurefor", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},         // systemd-oomd
    {"thenodewaslowonresource:memory", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0}, // Kubernetes
    {"term_memlimit", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},                  // LSF
    {"pbs:jobkilled:mem", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"pbs:jobkilled:vmem", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"exceededjobmemorylimit", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0}, // Slurm without control groups
    {"exceededstepmemorylimit", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"exceededmemorylimit(", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0},
    {"afterusingallavailableram", PLIM_OOM_HOST_KILLER, LOG_STRONG, 0}, // Colab
    {"exitcode:-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"returncode=-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"returncode:-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"returncode-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"signal9(sigkill)", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"signal:sigkill", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"signal9:sigkill", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitcode-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"errorcode-9", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"<signals.sigkill:9>", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"killed(signal9)", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"onsignal9(killed)", PLIM_OOM_SIGKILL, LOG_WEAK, 0},          // mpirun
    {"killedbysigkillbyoomkiller", PLIM_OOM_SIGKILL, LOG_WEAK, 0}, // Ray's guess
    {"exitcode:137", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitcode137", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitcodeof137", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitstatus137", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitedwithcode137", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"terminationcausedbysigkill", PLIM_OOM_SIGKILL, LOG_WEAK, 0},
    {"exitcode:-7", PLIM_OOM_SHARED_MEMORY, LOG_WEAK, 0},
    {"returncode=-7", PLIM_OOM_SHARED_MEMORY, LOG_WEAK, 0},
    {"signal7(sigbus)", PLIM_OOM_SHARED_MEMORY, LOG_WEAK, 0},
    {"workersareoutofsharedmemory", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"iskilledbysignal:buserror", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"insufficientsharedmemory(shm)", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"unabletowritetofile</torch_", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"unabletoallocatesharedmemory(shm)", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"creatingsharedmemorysegment/dev/shm/", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0}, // NCCL
    {"nospaceleftondevice:'/dev/shm/", PLIM_OOM_SHARED_MEMORY, LOG_STRONG, 0},
    {"iskilledbysignal:killed", PLIM_OOM_WORKER_KILLED, LOG_STRONG, 0},
    {"pagingfileistoosmall", PLIM_OOM_PAGING_FILE, LOG_STRONG, 0},
    {"resource_exhausted:outofmemory", PLIM_OOM_XLA, LOG_STRONG, 0},
    {"resource_exhausted:failedtoallocate", PLIM_OOM_XLA, LOG_STRONG, 0},
    {"outofmemorywhiletryingtoallocate", PLIM_OOM_XLA, LOG_STRONG, 0},
    {"ranoutofmemoryinmemoryspace", PLIM_OOM_XLA_COMPILE, LOG_STRONG, 0},
    {"oomwhenallocatingtensor", PLIM_OOM_TENSORFLOW, LOG_STRONG, 0},
    {"ranoutofmemorytryingtoallocate", PLIM_OOM_TENSORFLOW, LOG_WEAK, 0}, // it may go on without
    {"cudamallocfailed:outofmemory", PLIM_OOM_GGML, LOG_STRONG, 0},
    {"failedtoallocatecomputebuffers", PLIM_OOM_GGML, LOG_STRONG, 0},
    {"noavailablememoryforthecacheblocks", PLIM_OOM_VLLM_CACHE, LOG_STRONG, 0},
    {"largerthantheavailablekvcachememory", PLIM_OOM_VLLM_CACHE, LOG_STRONG, 0},
    {"tokensthatcanbestoredinkvcache", PLIM_OOM_VLLM_CACHE, LOG_STRONG, 0},
    {"islessthandesiredgpumemoryutilization", PLIM_OOM_VLLM, LOG_STRONG, 0},
    {"somemodulesaredispatchedonthecpu", PLIM_OOM_DISPATCHED, LOG_WEAK, 0},
    {"noexecutablebatchsizefound,reachedzero", PLIM_OOM_BATCH_ZERO, LOG_WEAK, 0},
    {"outofresource:", PLIM_OOM_ON_CHIP, LOG_STRONG, 0}, // Triton: shared or tensor memory, threads
    {"outofmemoryerror", PLIM_OOM_OTHER, LOG_HINT, LOG_MENTION},
    {"outofmemory", PLIM_OOM_OTHER, LOG_HINT, LOG_MENTION | LOG_KILLED},
    // Lines that are read more closely.
    {"traceback(mostrecentcalllast)", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_FRAME},
    {"file\"", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_FRAME},
    {"file\\\"", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_FRAME},
    {".py", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_FRAME},
    {"cellin", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_FRAME},
    {"it[", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_PROGRESS},
    {"%|", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_PROGRESS},
    {"loss", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_PROGRESS},
    {"/step", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_PROGRESS},
    {"num_updates", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_PROGRESS},
    {"killed", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_KILLED},
    {"memoryerror", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_KILLED},
    {"cancelledat", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_KILLED},
    {"term_runlimit", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_KILLED},
    {"batchsizeperdevice", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"accumulationsteps", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"distributed&accumulation", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"_alloc_conf", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {".pickle", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"+python", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"+torchrun", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"+accelerate", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"+deepspeed", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"$python", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"$torchrun", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"$accelerate", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"$deepspeed", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"max_ma", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"sequencelengthislonger", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"cgroup", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"constraint_memcg", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"vllm", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"microsoft-standard", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"/mnt/c/", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"memorygrowsby", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"inmemoryaftereachstep", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
    {"haverequires_grad", PLIM_OOM_NONE, LOG_NO_MESSAGE, LOG_SETTING},
};

enum { PHRASES = sizeof phrases / sizeof *phrases, CLASSES = 64, MAX_STATES = 4096 };

struct log_finder {
  uint8_t class_of[256]; // 0: in no phrase; BLANK: skipped
  uint16_t next[MAX_STATES][CLASSES];
  uint16_t shorter[MAX_STATES];   // the state of the longest proper ending that begins a phrase
  uint16_t phrase_of[MAX_STATES]; // 1 + the phrase that ends here; 0: none
  uint16_t states;
};

enum { BLANK = CLASSES - 1 };

static void number_classes(log_finder *f) {
  uint8_t classes = 1;
  for (size_t i = 0; i < PHRASES; i++)
    for (const unsigned char *c = (const unsigned char *)phrases[i].words; *c; c++)
      if (!f->class_of[*c] && classes < BLANK) f->class_of[*c] = classes++;
  for (int c = 'a'; c <= 'z'; c++) f->class_of[c - 'a' + 'A'] = f->class_of[c];
  f->class_of[' '] = BLANK;
}

// A tree of all phrases.
static void plant(log_finder *f) {
  f->states = 1;
  for (size_t i = 0; i < PHRASES; i++) {
    uint16_t state = 0;
    for (const char *c = phrases[i].words; *c; c++) {
      uint16_t *next = &f->next[state][f->class_of[(unsigned char)*c]];
      if (!*next && f->states < MAX_STATES) *next = f->states++;
      state = *next;
    }
    f->phrase_of[state] = (uint16_t)(i + 1);
  }
}

// Breadth first: where to go on when the next character does not continue a phrase.
static bool link(log_finder *f) {
  vec(uint16_t) queue = {0};
  if (!vec_reserve(&queue, f->states)) return false;
  for (int c = 0; c < BLANK; c++)
    if (f->next[0][c]) vec_push(&queue, f->next[0][c]);
  for (size_t i = 0; i < queue.len; i++) {
    uint16_t state = queue.at[i], shorter = f->shorter[state];
    if (!f->phrase_of[state]) f->phrase_of[state] = f->phrase_of[shorter];
    for (int c = 0; c < BLANK; c++) {
      uint16_t next = f->next[state][c], otherwise = f->next[shorter][c];
      if (!next) {
        f->next[state][c] = otherwise;
        continue;
      }
      f->shorter[next] = otherwise;
      vec_push(&queue, next);
    }
  }
  vec_free(&queue);
  return true;
}

log_finder *log_finder_new(void) {
  log_finder *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  number_classes(f);
  plant(f);
  if (link(f)) return f;
  free(f);
  return NULL;
}

void log_finder_free(log_finder *finder) { free(finder); }

const log_phrase *log_finder_step(const log_finder *f, uint16_t *state, char c) {
  uint8_t class = f->class_of[(unsigned char)c];
  if (class == BLANK) return NULL;
  *state = class ? f->next[*state][class] : 0;
  return f->phrase_of[*state] ? &phrases[f->phrase_of[*state] - 1] : NULL;
}
