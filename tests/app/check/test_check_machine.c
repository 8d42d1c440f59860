// Findings of the pre-flight list about cards, host memory and other processes: they appear only if they are true, with
// the place and what to type.
#include "checking.h"

static void put_process(unsigned pid, const char *name, uint64_t mib) {
  check_process p = {.process = {pid, mib == PLIM_UNKNOWN ? mib : mib * PLIM_MIB}};
  snprintf(p.name, sizeof p.name, "%s", name);
  if (!vec_push(&c.processes, p)) abort();
}

TEST(check_without_a_card_is_a_note) {
  begin();
  GO();
  CHECK_FOUND("card.none", CHECK_NOTE);
  CHECK(!check_count(&c, CHECK_FAILS), "failures");
}

TEST(check_names_processes_on_the_card) {
  begin();
  put_card(20000);
  put_card(24000);
  put_process(4100, "python3", 4000);
  put_process(900, "", PLIM_UNKNOWN);
  GO();
  CHECK_FOUND("card", CHECK_OK);
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->what, "python3 (4100) with 3.91 GiB");
  CHECK_SAYS(found("card.processes")->what, "not visible from here (900)");
  CHECK_SAYS(found("card.processes")->fix, "CUDA_VISIBLE_DEVICES=1");
}

TEST(check_of_a_desktop_is_a_note) {
  begin();
  put_card(24000);
  put_process(900, "Xorg", 300);
  GO();
  CHECK_FOUND("card.processes", CHECK_NOTE);
}

TEST(check_reports_memory_without_a_process) {
  begin();
  put_card(10000);
  GO();
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->what, "not visible from here");
}

TEST(check_counts_cards) {
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_FOUND("card.count", CHECK_FAILS);
  CHECK_SAYS(found("card.count")->fix,
             "run.sh use --nproc_per_node 1, and set gradient_accumulation_steps to 32 to keep "
             "64 sequences per step");
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "accelerate launch --num_processes 4 train.py\n");
  GO();
  CHECK_SAYS(found("card.count")->fix, "run.sh use --num_processes 1, and set");
  begin();
  for (int i = 0; i < 3; i++) put_card(24000); // 8 x 4 is not a multiple of 3
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_SAYS(found("card.count")->fix, "with more accumulation to keep the effective batch");
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=1 --nnodes=4 train.py\n");
  GO();
  CHECK_NOT_FOUND("card.count");
}

TEST(check_of_no_visible_card) {
  begin();
  visible = "";
  GO();
  CHECK_FOUND("environment.no_card", CHECK_WARNING);
}

TEST(check_of_a_card_that_is_not_there) {
  begin();
  put_card(24000);
  put_card(24000);
  visible = "0,1,2";
  GO();
  CHECK_FOUND("environment.missing_card", CHECK_WARNING);
  CHECK_SAYS(found("environment.missing_card")->why, "gets only the first 2 GPUs of the list");
  CHECK_SAYS(found("environment.missing_card")->fix, "CUDA_VISIBLE_DEVICES=0,1");
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "CUDA_VISIBLE_DEVICES=3 python train.py\n");
  GO();
  CHECK_FOUND("environment.missing_card", CHECK_WARNING);
  CHECK(found("environment.missing_card")->line == 1, "no line");
  static const char *const fine[] = {"0", "1,0", "GPU-8932f937-d72c", "MIG-1"};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    put_card(24000);
    put_card(24000);
    visible = fine[i];
    GO();
    CHECK_NOT_FOUND("environment.missing_card");
  }
}

// A busy card is reported only if the run sees it.
TEST(check_looks_at_the_cards_that_the_run_sees) {
  begin();
  put_card(2000);
  put_card(24000);
  put_process(4100, "python3", 22000);
  visible = "1";
  GO();
  CHECK_NOT_FOUND("card.processes");
  CHECK_SAYS(found("card")->what, "GPU 1");
  CHECK(c.card_count == 1 && check_gpu(&c), "%zu cards", c.card_count);
  begin();
  put_card(2000);
  put_card(24000);
  put_process(4100, "python3", 22000);
  visible = "0";
  GO();
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->fix, "CUDA_VISIBLE_DEVICES=1");
}

// By default, CUDA numbers different cards with the fastest first.
TEST(check_of_different_cards) {
  begin();
  put_card(24000);
  put_card(24000);
  snprintf(c.cards[1].name, sizeof c.cards[1].name, "NVIDIA H200");
  visible = "1";
  GO();
  CHECK(c.card_count == 2, "%zu cards", c.card_count);
}

static const char zero3[] = "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": "
                            "{\"device\": \"cpu\"}, \"offload_optimizer\": {\"device\": \"cpu\"}}, "
                            "\"bf16\": {\"enabled\": \"auto\"},\n"
                            " \"train_micro_batch_size_per_gpu\": \"auto\"}\n";

static void given_offload(void) {
  given("train.py", trainer);
  given("ds.json", zero3);
  given("run.sh", "torchrun --nproc_per_node=2 train.py --deepspeed ds.json\n");
  c.model = "llama-3.1-8b";
  c.gpu = "80GiB";
}

TEST(check_compares_offload_with_memory) {
  begin();
  given_offload();
  c.machine.available_bytes = c.machine.total_bytes = 512 * PLIM_GIB;
  GO();
  CHECK_FOUND("host.offload", CHECK_OK);
  begin();
  given_offload();
  GO();
  CHECK_FOUND("host.offload", CHECK_FAILS);
  CHECK_SAYS(found("host.offload")->what, "60.0 GiB are available");
}

// The files set no number of GPUs, and eight are assumed: all of them need host memory.
TEST(check_counts_the_host_memory_of_assumed_gpus) {
  begin();
  given("run.yaml", "base_model: Qwen/Qwen2.5-7B\nsequence_len: 1024\nmicro_batch_size: 1\n"
                    "gradient_accumulation_steps: 1\nbf16: true\ndatasets:\n  - path: x\n"
                    "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json\n");
  c.gpu = "80GiB";
  GO();
  CHECK_FOUND("host.offload", CHECK_FAILS);
  CHECK_SAYS(found("host.offload")->what, "for each of 8 GPUs");
}

// The limit of a container counts even if the machine has more memory, and is what the user has to raise.
TEST(check_compares_offload_with_a_container_limit) {
  begin();
  given_offload();
  c.machine.available_bytes = c.machine.total_bytes = 512 * PLIM_GIB;
  c.machine.limit_bytes = 32 * PLIM_GIB;
  c.machine.limit_used_bytes = 2 * PLIM_GIB;
  GO();
  CHECK_FOUND("host.offload", CHECK_FAILS);
  CHECK_SAYS(found("host.offload")->what, "30.0 GiB are available");
  CHECK_SAYS(found("host.offload")->fix, "docker run --memory=");
  CHECK_SAYS(found("host.memory")->what, "30.0 GiB available (container limit 32.0 GiB");
}

TEST(check_of_locked_memory) {
  begin();
  given_offload();
  c.machine.locked_bytes = 8 * PLIM_MIB;
  GO();
  CHECK_FOUND("host.locked", CHECK_WARNING);
  begin();
  given_offload();
  GO();
  CHECK_NOT_FOUND("host.locked");
}

static void given_workers(const char *length) {
  char text[512];
  snprintf(text, sizeof text,
           "base_model: gpt2\nsequence_len: %s\nmicro_batch_size: 4\n"
           "gradient_accumulation_steps: 2\ndatasets:\n  - path: x\n"
           "dataloader_num_workers: 8\n",
           length);
  given("train.yaml", text);
}

TEST(check_of_shared_memory) {
  begin();
  given_workers("1024");
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_OK);
  begin();
  given_workers("1024");
  c.machine.shm_total_bytes = c.machine.shm_free_bytes = 64 * PLIM_MIB;
  c.machine.is_container = true;
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_WARNING);
  CHECK_SAYS(found("host.shared_memory")->fix, "--shm-size");
  begin();
  given_workers("131072"); // 4 x 131072 tokens x 3 tensors x 2 prefetched x 8 workers
  c.machine.shm_total_bytes = c.machine.shm_free_bytes = 64 * PLIM_MIB;
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_FAILS);
}

TEST_MAIN
