/* Renders steps for a target: body -> C text -> code blob. */
#ifndef CV_COMPILER_RENDER_H
#define CV_COMPILER_RENDER_H

#include "compiler/graph.h"
#include "compiler/templates.h"
#include "runtime/program.h"

/* A target the C dialect prints for. */
typedef struct {
  const char *name;     /* "x86-64-v4" */
  const char *arch;     /* "x86-64", "aarch64" */
  const char *features; /* what loading checks, comma separated (names of runtime/cpu_features.c) */
  const char *march;    /* the compiler's flag: "-march=x86-64-v4 -mprefer-vector-width=512" */
  int vector_bytes;     /* 64, 32, 16 */
  int registers;        /* vector registers: 32, 16, 32 */
  int tile_rows, tile_vectors; /* contraction register tile, from counting registers */
} cv_target;

const cv_target *const *cv_target_table(void); /* NULL-terminated */
/* By name; "native" is the best row this CPU runs. CV_INVALID names those there are. */
CV_NODISCARD cv_status cv_target_find(const char *name, const cv_target **out_target);

/* What rendering one step gives. Lists live in `arena`. */
typedef struct {
  uint32_t n_dims, n_packs;
  cv_expr *dims;
  cv_pack *packs;
  bool *reads_raw; /* per param */
  const char *variant;
} cv_rendered;

/* Appends to `code` the C functions of one kernel: NAME_prepare, NAME_run and, where packs are
 * wanted, NAME_pack, of kernel_abi.h's types. Deterministic. CV_UNSUPPORTED names the node. `body`
 * is not changed in meaning (its expression pool may grow). */
CV_NODISCARD cv_status cv_render_step(const cv_target *target, cv_graph *body, const char *name,
                                      cv_arena *arena, cv_str *code, cv_rendered *out_rendered);

/* Renders all steps of a program (loop bodies too) for a target, compiles (two translation units at
 * a time, cached by hash of source and flags under `cache_dir`, NULL: none), and adds or replaces
 * the target in program->targets. Bodies are parsed from the steps' normative texts, so nothing but
 * the program is needed. `progress` (may be NULL) is called with done and total. */
typedef struct {
  const char *cache_dir;
  int jobs;             /* compilers at a time, default 2 */
  const char *keep_dir; /* keeps the sources there, for people; may be NULL */
  void (*progress)(void *context, uint32_t done, uint32_t total);
  void *context;
} cv_render_options;
CV_NODISCARD cv_status cv_render_target(cv_program *program, const cv_target *target,
                                        const cv_render_options *options);

#endif
