/* The program: an ordered list of steps over SSA values. A cut is a position between two steps, a
 * stage a slice of the list. This is the manifest of a .cuv in memory; read-only once built, so any
 * thread may read it. */
#ifndef CV_RUNTIME_PROGRAM_H
#define CV_RUNTIME_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "runtime/dtype.h"
#include "runtime/expr.h"

#define CV_NONE UINT32_MAX

typedef enum { CV_VALUE_INPUT, CV_VALUE_CONST, CV_VALUE_STEP } cv_value_kind;

typedef struct {
  const char *name; /* unique; the model's name where it has one */
  cv_value_kind kind;
  cv_dtype dtype;
  uint8_t rank;
  cv_expr dims[CV_MAX_RANK];
  cv_expr guard;    /* present only where this is non-zero (of an untaken branch otherwise) */
  uint32_t source;  /* INPUT: index in inputs; CONST: index in consts; STEP: the producing step */
  bool fixed_width; /* always true today; a cut is legal only where all live values are */
} cv_value;

typedef struct {
  cv_dtype dtype;
  uint8_t rank;
  int64_t dims[CV_MAX_RANK];
  uint64_t offset, bytes; /* of the blob: in the artifact, from the start of the blob area */
  uint64_t hash;          /* XXH3 of the bytes */
  const void *data;       /* mapped bytes; NULL before they are there */
} cv_const;

/* Symbol `sym` := element `element` of value `value` (i64, i32 or bool), read once the value is
 * there and its guard holds. Checked against the symbol's bounds. */
typedef struct {
  cv_sym sym;
  uint32_t value, element;
} cv_bind;

/* What the program was compiled for and no single input's dims say: a = b where guard is non-zero.
 * Checked when a request comes, or when a step has bound the last symbol of it. */
typedef struct {
  cv_expr a, b, guard;
  const char *source; /* the node's name, or "" */
} cv_check;

typedef enum {
  CV_STEP_KERNEL, /* a fused kernel: the body is core ops */
  CV_STEP_ALIAS,  /* out 0 is the first present input, under the dims of out 0 (reshape, join of
                     branches); no bytes move */
  CV_STEP_LOOP,   /* runs a body program again and again */
} cv_step_kind;

typedef struct cv_program cv_program;

/* ONNX Loop: ins = [trip count i64 scalar or CV_NONE (no limit), condition before the first
 * iteration bool scalar or CV_NONE (true), carried..., captured...]; outs = [carried finals...,
 * stacked...]. Body inputs: [iteration i64, condition bool, carried..., captured...]; body outputs:
 * [condition bool, carried..., stacked items...]. A stacked output has dims [trips, item dims...];
 * the step binds symbol `trips`. The loop ends after the trip count, or with an iteration whose
 * condition is false. */
typedef struct {
  cv_program *body; /* shares the expression pool and the consts of its parent */
  uint32_t carried, stacked, captured;
  cv_sym trips;      /* bound to the iterations run; CV_NONE if nothing needs it */
  int64_t max_trips; /* bound of the iterations: more is an error, never for ever */
} cv_loop;

typedef struct {
  const char *name; /* of the node that matters most, unique in the program */
  cv_step_kind kind;
  uint32_t n_ins, n_outs, n_binds;
  uint32_t *ins, *outs; /* value ids; an input may be CV_NONE only in a loop */
  cv_bind *binds;       /* read after the step has run */
  cv_expr guard;        /* runs only where this is non-zero */
  const char *body; /* KERNEL: the graph text of the body: params in the order of ins, results in
                       that of outs */
  const char
      *pattern; /* template that fits: "map", "row", "reduce", "contraction", "window", "routine" */
  const char
      *regions; /* named regions inside, comma separated: "LayerNormalization,Gelu"; "" if none */
  const char *nodes; /* names of the model's nodes inside, comma separated, at most some hundred
                        characters */
  cv_expr flops;     /* arithmetic operations a run; CV_EXPR_NONE: not known (loops) */
  cv_loop *loop;
} cv_step;

/* A weight in the form the kernel wants, made at load. */
typedef struct {
  cv_expr bytes;
} cv_pack;

/* How one target runs steps [first, last]; one rendering per step always exists. */
typedef struct {
  uint32_t first, last;
  uint32_t kernel; /* index in the target's cv_kernel_table; CV_NONE for alias and loop steps */
  uint32_t n_dims, n_packs;
  cv_expr *dims; /* evaluated into the kernel's `dims` */
  cv_pack *packs;
  bool *reads_raw; /* per input of the step: false if the kernel only reads its packed form (then
                      the raw blob may go); NULL where there is no kernel */
  const char *variant; /* for people: "contraction f32 8x48 k-blocked" */
} cv_rendering;

typedef struct {
  const char *name;      /* "x86-64-v4", "x86-64-v3", "aarch64" */
  const char *arch;      /* "x86-64", "aarch64" */
  const char *features;  /* comma separated CPU features that loading checks: "avx2,fma,..." */
  const char *toolchain; /* compiler, version and flags, for people */
  uint64_t code_offset, code_bytes, code_hash;
  const void *code;
  uint32_t n_renderings;
  cv_rendering *renderings; /* one or more for each step. A loop's body has its own, under the same
                               target index, whose kernels are in the outermost program's code (code
                               fields are 0 there) */
  uint32_t *layouts; /* per value: 0 plain row-major. One choice per value over the whole program */
} cv_target_code;

typedef struct {
  uint32_t value;       /* value id */
  int32_t batch_axis;   /* -1: not batched (an input: shared, must be equal to merge) */
  int64_t batch_factor; /* the axis holds factor x batch */
} cv_port;

typedef struct {
  uint32_t input, output; /* indices of ports: output goes into input of the next request */
} cv_state_pair;

struct cv_program {
  cv_arena arena;
  cv_exprs *exprs; /* of the outermost program: a loop's body borrows it */
  bool owns_exprs;
  uint32_t n_values, n_consts, n_steps, n_inputs, n_outputs, n_binds, n_checks, n_targets, n_states;
  cv_value *values;
  cv_const *consts;
  cv_step *steps;
  cv_port *inputs, *outputs;
  cv_bind *binds; /* symbols read from the values of inputs, before the first step */
  cv_check *checks;
  cv_target_code *targets;
  cv_state_pair *states;
  bool separable;                    /* requests may be split and merged along the batch: proved */
  cv_sym batch;                      /* the batch symbol; CV_NONE if there is none */
  const char *separable_why;         /* the proof's verdict in a sentence */
  const char *model_name, *producer; /* provenance */
  char hash[33];                     /* of the program: hex, identifies the artifact's meaning */
};

/* An empty program over the pool; with `owns_exprs` cv_program_destroy destroys the pool too. Its
 * parts are allocated from its arena. NULL when out of memory (never if may_die). */
cv_program *cv_program_create(cv_exprs *exprs, bool owns_exprs, bool may_die);
/* Frees the program, the bodies of its loops, and its pool if it owns one; accepts NULL and
 * half-built ones. */
void cv_program_destroy(cv_program *program);
/* Checks a program whose arrays have the stated lengths and whose expressions come from its pool
 * (or are CV_EXPR_NONE), and nothing else about it: ids in range, SSA order, ranks, bytes of
 * constants, names, ports, binds, loops, renderings. Bounded and total: for bytes from outside and
 * for what lowering made. CV_CORRUPT names what is wrong; CV_NOMEM. */
CV_NODISCARD cv_status cv_program_verify(const cv_program *program);

/* What lives at a cut: values that a step >= position (or the program's results) reads and that a
 * step < position or the inputs made (consts aside). position 0..n_steps. Ids ascending, into
 * `out_ids` (room for n_values); returns the count. */
uint32_t cv_program_live(const cv_program *program, uint32_t position, uint32_t *out_ids);
/* True if the program may be cut there (1..n_steps-1): all live values are tensors of fixed-width
 * type. */
bool cv_program_cut_legal(const cv_program *program, uint32_t position);

/* The ports of a slice [first, last]: values read inside but made outside (inputs and steps; no
 * consts), and values made inside (or inputs of the program that are also its results, where first
 * is 0; those are then inputs of the slice too) that later steps or the results read. Ids
 * ascending; `out_ins`/`out_outs` have room for n_values each. */
void cv_program_slice_ports(const cv_program *program, uint32_t first, uint32_t last,
                            uint32_t *out_ins, uint32_t *out_n_ins, uint32_t *out_outs,
                            uint32_t *out_n_outs);

#endif
