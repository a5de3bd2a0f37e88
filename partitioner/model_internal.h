/* The planner's input turned into what the search asks for, private to partitioner/. Steps between
 * two legal cuts are one atom: positions 0..n_atoms are cuts, and a stage is atoms [a, b). */
#ifndef CV_PARTITIONER_MODEL_INTERNAL_H
#define CV_PARTITIONER_MODEL_INTERNAL_H

#include <stddef.h>

#include "base/arena.h"
#include "partitioner/partitioner.h"

/* Weighted intervals [lo, hi] of positions, and the sum of those that cover [a, b]. */
typedef struct {
  int lo, hi;
  uint64_t bytes;
} cv_span;

typedef struct {
  int n;         /* positions 0..n-1 */
  size_t *begin; /* [n + 2] of each node of a Fenwick tree over lo */
  int *hi;       /* descending within a node */
  uint64_t *sum; /* sums along a node */
  int *max_hi;   /* [n] over lo <= a; -1: none */
  uint64_t *at;  /* [n] sum of the spans that cover one position */
} cv_spans;

CV_NODISCARD cv_status cv_spans_build(cv_arena *arena, const cv_span *spans, size_t count, int n,
                                      cv_spans *out_spans);
/* Sum of the spans with lo <= a and hi >= b. O(log n log n), most often O(1). */
uint64_t cv_spans_covering(const cv_spans *spans, int a, int b);

/* A value that some cut may cross, in atoms. */
typedef struct {
  int producer;         /* -1: graph input */
  int first, n_readers; /* into cv_model.readers; without the gateway */
  bool is_output;
  uint64_t bytes;
} cv_model_value;

/* Devices that may be exchanged for each other without any figure changing. */
typedef struct {
  int n_members;
  const int *members; /* device indices */
  const cv_plan_device *device;
  const double *time;          /* [n_atoms + 1] prefix sums */
  const double *pack, *unpack; /* [n_atoms + 1] */
  bool pays_copies;            /* no core is free for them */
  uint64_t memory;             /* UINT64_MAX: no limit */
  const uint64_t *weight_sum;  /* [n_atoms + 1] prefix sums of weights with one reader */
  const cv_spans *weight_shared;
  cv_plan_link best_in, best_out; /* bounds over the links from and to other stages */
  const cv_plan_link *from_gateway, *to_gateway;
} cv_model_class;

typedef struct {
  const cv_plan_input *input;
  cv_arena arena;
  int n_atoms, n_classes, out_buffers;
  const int *cut; /* [n_atoms + 1] position -> step */
  cv_model_class *classes;
  bool uniform; /* all of those that can occur are equal */
  bool limited; /* some device has a memory limit */
  int n_values;
  cv_model_value *values; /* by producer */
  int *readers;           /* atoms */
  int *made_by;     /* [n_atoms + 1]: atom a makes values[made_by[a]] to before made_by[a + 1] */
  int *read_by;     /* [n_atoms + 1] into read_value, read_before */
  int *read_value;  /* value read by the atom */
  int *read_before; /* the atom that read it before, else the producer, else -1 */
  cv_spans in_gateway, in_stage, out_stage, out_all;
  uint64_t *out_gateway; /* [n_atoms + 1] prefix sums of graph outputs by producer */
  uint64_t **buffer_max; /* [level][n_atoms] sparse table, NULL without buffers */
} cv_model;

/* CV_INVALID when the input contradicts itself. */
CV_NODISCARD cv_status cv_model_check(const cv_plan_input *input);
/* Checks the input and builds the model; the input is borrowed. `ordered`: every device is its own
 * class, in order; else classes are sorted fastest first. */
CV_NODISCARD cv_status cv_model_create(const cv_plan_input *input, bool ordered,
                                       cv_model **out_model);
void cv_model_destroy(cv_model *model);

/* A stage in a path: it ends at position `end` on a device of class `class_`. */
typedef struct {
  int class_, end;
} cv_path_stage;

/* No stage [a, b) of class c at place j of the pipe (after a stage of class `before`, or -1) costs
 * less, whatever the others are; INFINITY: it does not fit its memory. `open` leaves out what does
 * not grow with b. Equal to the true cost when links are alike and every value is read by one
 * stage. */
typedef struct {
  int class_, before, place, a, b;
} cv_model_stage;
double cv_model_floor(const cv_model *model, const cv_model_stage *stage, bool open);
/* Bytes of weights and buffers of atoms [a, b) on the class; grows with the stage at both ends. */
uint64_t cv_model_hold(const cv_model *model, int class_, int a, int b);
/* Bytes of memory the stage needs at least. */
uint64_t cv_model_memory(const cv_model *model, const cv_model_stage *stage);
double cv_model_compute(const cv_model *model, int class_, int a, int b);

/* The link between two different devices of the classes; NULL when there is no second one. */
const cv_plan_link *cv_model_link(const cv_model *model, int from_class, int to_class);
/* Bytes that the stage path[j] gets: row[0] from the gateway, row[1 + i] from stage i < j. */
void cv_model_gather(const cv_model *model, const cv_path_stage *path, int j, uint64_t *row);

/* True figures of a whole path. */
typedef struct {
  double bottleneck, gateway_out, gateway_in;
  int misfit;            /* the first stage that does not fit its memory, or -1 */
  cv_plan_stage *stages; /* [n]; without the device */
  cv_plan_edge *edges;   /* without slots */
  int n_edges;
} cv_model_score;
/* Memory of the result is the arena's. */
CV_NODISCARD cv_status cv_model_evaluate(const cv_model *model, const cv_path_stage *path, int n,
                                         cv_arena *arena, cv_model_score *out_score);

#endif
