// Short names for programs on the tape, so that a model family reads like the PyTorch model. Include it last,
// because the names are ordinary words, and only in files of the tape, operators, modules, families, optimizers,
// sharding and loops. The symbols keep their plim_ prefix.
#ifndef PLIM_CORE_TAPE_NAMES_H
#define PLIM_CORE_TAPE_NAMES_H

#include "tape.h"

#define hold(...) plim_hold(__VA_ARGS__)
#define let_go(...) plim_let_go(__VA_ARGS__)
#define set(...) plim_set(__VA_ARGS__)
#define drop(...) plim_drop(__VA_ARGS__)
#define drop_all(t, ...)                                                                           \
  plim_drop_list(t, (plim_tensor * *const[]){__VA_ARGS__},                                         \
                 sizeof((plim_tensor **const[]){__VA_ARGS__}) / sizeof(plim_tensor **))
#define consume_all(t, ...)                                                                        \
  plim_consume_list(t, (plim_tensor *const[]){__VA_ARGS__},                                        \
                    sizeof((plim_tensor *const[]){__VA_ARGS__}) / sizeof(plim_tensor *))
#define give(...) plim_give(__VA_ARGS__)
#define empty(...) plim_empty(__VA_ARGS__)
#define empty_strided(...) plim_empty_strided(__VA_ARGS__)
#define empty_on_host(...) plim_empty_on_host(__VA_ARGS__)
#define empty_for(...) plim_empty_for(__VA_ARGS__)
#define scratch(...) plim_scratch(__VA_ARGS__)
#define view_of(...) plim_view_of(__VA_ARGS__)
#define alias_of(...) plim_alias_of(__VA_ARGS__)
#define needs_grad(...) plim_needs_grad(__VA_ARGS__)
#define node_begin(...) plim_node_begin(__VA_ARGS__)
#define node_save(...) plim_node_save(__VA_ARGS__)
#define node_save_output(...) plim_node_save_output(__VA_ARGS__)
#define node_output(...) plim_node_output(__VA_ARGS__)
#define wants(...) plim_wants(__VA_ARGS__)
#define checkpoint(...) plim_checkpoint_call(__VA_ARGS__)
#define checkpoint_reentrant(...) plim_checkpoint_reentrant(__VA_ARGS__)
#define checkpoint_offloaded(...) plim_checkpoint_offloaded(__VA_ARGS__)
#define backward(...) plim_backward(__VA_ARGS__)
#define backward_all(...) plim_backward_all(__VA_ARGS__)
#define drop_graph(...) plim_drop_graph(__VA_ARGS__)
#define set_grad_mode(...) plim_set_grad_mode(__VA_ARGS__)
#define dims(...)                                                                                  \
  ((plim_dims){.n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .at = {__VA_ARGS__}})

#endif
