/* The CPU device, private to runtime/cpu*.c, loop.c and paced.c.
 *
 * A slice is run by a runner, and so is a loop's body. A runner's steps are split, once at load, in
 * segments: a new one begins where a step's shapes or guard need a symbol that an earlier step of
 * the same segment binds, and each loop is a segment of its own; so all shapes of a segment are
 * known when it begins. For the values of the symbols it reads, a segment has a plan: which steps
 * run, where their results lie in the segment's arena, tables of pointers and dims. Plans are kept
 * for the last few shapes; running a known shape only patches pointers that come from outside and
 * calls kernels. Values that later segments read stay in the arena until the run's end.
 */
#ifndef CV_RUNTIME_CPU_INTERNAL_H
#define CV_RUNTIME_CPU_INTERNAL_H

#include "runtime/cpu_device_internal.h"

enum { CPU_PLANS = 8 }; /* shapes kept for each segment */

typedef struct cpu_runner cpu_runner;
typedef struct cpu_loop cpu_loop;

/* What stays the same of a step. */
typedef struct {
  const cv_step *step;
  const cv_rendering *rendering;
  const cv_kernel *kernel;
  const void **packs;
  cpu_loop *loop;
} cpu_step;

/* One active step of a plan. */
typedef struct {
  const cv_kernel *kernel; /* NULL: an alias */
  void **ptrs;             /* inputs, outputs, packed weights, then the values of the binds */
  int64_t *dims;
  uint32_t step; /* in the runner */
  bool wide;     /* worth more than one thread */
  cv_kernel_plan plan;
} cpu_call;

typedef struct {
  void **slot;
  uint64_t offset;
} cpu_fixup; /* *slot = arena + offset */

typedef struct {
  void **slot;
  uint32_t value;
} cpu_patch; /* *slot = at[value] */

typedef enum { CPU_ABSENT, CPU_ARENA, CPU_OUT, CPU_SAME } cpu_place_kind;

typedef struct {
  uint32_t value;
  cpu_place_kind kind;
  uint64_t where; /* ARENA: offset; OUT: output number; SAME: the value whose memory it is */
} cpu_export;     /* sets at[value] */

typedef struct {
  uint32_t out;
  bool copied;      /* from at[value] at the segment's end; else the step writes it in place */
  cv_tensor tensor; /* type and bytes */
} cpu_result;

typedef struct {
  bool valid;
  uint64_t used_at; /* rises with each use; the least is replaced */
  int64_t *key;     /* values of the segment's symbols */
  uint64_t arena_bytes, scratch_thread, scratch_shared;
  void *arena_base; /* the pointers stand for this base */
  uint32_t n_calls, n_fixups, n_patches, n_exports, n_results;
  cpu_call *calls;
  cpu_fixup *fixups;
  cpu_patch *patches;
  cpu_export *exports;
  cpu_result *results;
  void **ptrs;
  int64_t *dims;
} cpu_plan;

typedef struct {
  uint32_t first, last; /* steps of the runner */
  bool loop;            /* one loop step */
  uint32_t n_syms;
  cv_sym *syms;            /* what its shapes and guards read */
  uint32_t n_ptrs, n_dims; /* room that a plan needs */
  uint32_t n_made, n_outs; /* values made; results of the runner among them */
  cpu_region arena;
  cpu_plan *plans[CPU_PLANS];
  cpu_plan *recent;
} cpu_segment;

typedef struct {
  uint64_t offset, bytes;
} cpu_hole;

/* Where a value stands while a segment is planned. */
typedef struct {
  uint32_t root; /* the value whose memory it is */
  uint32_t last; /* step that reads it last, UINT32_MAX: needed when the segment is over */
  cpu_place_kind kind;
  bool present, made; /* made: by this segment */
  uint64_t where, bytes;
} cpu_spot;

/* What stays the same of a value. */
typedef struct {
  uint32_t segment; /* that makes it; UINT32_MAX: from outside */
  uint32_t last;    /* step that reads it last; UINT32_MAX: a later segment or the results do */
} cpu_value;

/* What the runners of a slice share. */
typedef struct {
  cpu_device *device;
  const cv_artifact *artifact;
  uint32_t target;
  cpu_code *code;
  cv_vec(cpu_weight *) held;
  cpu_region scratch;
  uint64_t weight_bytes;
} cpu_context;

struct cpu_runner {
  cpu_context *context;
  const cv_program *program;
  cv_arena arena; /* of all lists below */
  uint32_t n_steps, n_ins, n_outs, n_segments;
  const uint32_t *ins, *outs; /* value ids */
  cpu_step *steps;
  cpu_value *values; /* by value id, as the next two */
  cpu_spot *spots;
  void **at;
  cpu_hole *holes;
  cpu_segment *segments;
  int64_t *key; /* room for the most symbols of a segment */
  uint64_t uses;
};

/* What runs hand down. */
typedef struct {
  int64_t *symbols;
  const cv_tensor *ins;
  cv_tensor *outs;
  cv_status (*place)(void *context, uint32_t index, cv_tensor *tensor);
  void *place_context;
  cv_step_time *times; /* or NULL */
} cpu_job;

/* What of a program a runner runs. The lists must outlive the runner. */
typedef struct {
  const cv_program *program;
  uint32_t first, n_steps;
  uint32_t n_ins, n_outs;
  const uint32_t *ins, *outs; /* value ids */
} cpu_part;

/* Finds the kernels of a part and makes its lists; weights come with cpu_weights_load. */
CV_NODISCARD cv_status cpu_runner_create(cpu_context *context, const cpu_part *part,
                                         cpu_runner **out_runner);
void cpu_runner_destroy(cpu_runner *runner); /* accepts NULL and half-built ones */
CV_NODISCARD cv_status cpu_runner_run(cpu_runner *runner, const cpu_job *job);
/* Adds the arenas of the runner and of its loops. */
uint64_t cpu_runner_arena(const cpu_runner *runner);

/* Splits the runner's steps in segments and makes their lists. */
CV_NODISCARD cv_status cpu_segments_make(cpu_runner *runner);
/* The plan of a segment for the symbols' values: one that is kept, or a new one. */
CV_NODISCARD cv_status cpu_plan_get(cpu_runner *runner, cpu_segment *segment,
                                    const int64_t *symbols, cpu_plan **out_plan);

/* All weights of a runner's steps: found loaded or packed now; then held by the context. */
CV_NODISCARD cv_status cpu_weights_load(cpu_context *context, cpu_runner *const *runners,
                                        uint32_t n_runners);
void cpu_weights_release(cpu_context *context);
/* The data of a const that is held as it is, else NULL. */
const void *cpu_weights_const(const cpu_context *context, const cv_const *constant);

/* Type and dims of a value, without data. CV_INVALID names the value. */
CV_NODISCARD cv_status cpu_describe(const cv_program *program, uint32_t value,
                                    const int64_t *symbols, cv_tensor *out_tensor);
/* Sets a symbol, checking its bounds; `where` names step or input. */
CV_NODISCARD cv_status cpu_bind(const cv_program *program, cv_sym sym, int64_t number,
                                const char *where, int64_t *symbols);
/* The same for a symbol that a step binds; then looks at the checks that waited for it. */
CV_NODISCARD cv_status cpu_bind_late(const cv_program *program, cv_sym sym, int64_t number,
                                     const char *where, int64_t *symbols);
/* Element number `element` of an integer or bool tensor's data. */
int64_t cpu_element(const void *data, cv_dtype dtype, uint32_t element);
/* As cv_program_bind_inputs, for symbols of which some have values already. */
CV_NODISCARD cv_status cpu_bind_inputs(const cv_program *program, const cv_tensor *inputs,
                                       int64_t *symbols);

CV_NODISCARD cv_status cpu_loop_create(cpu_context *context, const cv_step *step,
                                       cpu_loop **out_loop);
void cpu_loop_destroy(cpu_loop *loop); /* accepts NULL */
/* Runs the loop at step `s` of the runner: reads at[] of its inputs, sets at[] of its outputs and
 * gives their types (`outs`, one for each output of the step). Valid until its next run. */
CV_NODISCARD cv_status cpu_loop_run(cpu_loop *loop, cpu_runner *runner, uint32_t s,
                                    int64_t *symbols, cv_tensor **out_outs);
uint64_t cpu_loop_arena(const cpu_loop *loop);
cpu_runner *cpu_loop_body(const cpu_loop *loop);

#endif
