/* The emitter: what the render_*.c templates share. It turns values of a body into C text: a value
 * at an index is evaluated by walking back through MAP, MOVE and GATHER nodes to params, constants
 * or values that the template has "given" (an accumulator, a buffer), index chains being folded
 * into index expressions on the way.
 *
 * Everything is computed on vectors of `lanes` lanes along one loop variable (`lane`), of which the
 * first `count` are valid; tails go through the same operations with partial loads and stores. So
 * the bits of an element never depend on its place in a vector. Generated code is compiled with
 * -ffp-contract=off: where a fused multiply-add is wanted it is written (cv_fma_f32xN).
 *
 * Names in generated code: vector types f32x16, i64x8, ...; a bool is a mask vector (0 or -1) of
 * type mask16 or mask8 with lanes as wide as the target's vector over its lanes; f16 and bf16 are
 * f32 vectors that were rounded. `lanes` is vector_bytes / 4, or vector_bytes / 8 for bodies with
 * 8-byte dtypes; the prelude (prelude.c) has every operation for both. */
/* clang-format off */
/* For a dtype D of f32, f64, f16, bf16, i8..u64, bool, N lanes, V the compute vector of D:
 *   V cv_load_DxN(const S *p, int n)        the first n lanes (n <= 0: none), the others 0
 *   V cv_part_DxN(const S *p, int a, int b) lanes a..b-1, the others 0
 *   V cv_bcast_DxN(const S *p)              one element in all lanes
 *   V cv_stride_DxN(const S *p, int64_t k, int n)  p[0], p[k], ...
 *   void cv_store_DxN(S *p, int n, V v)     stores the first n lanes
 *   V cv_splat_DxN(element)                 all lanes, from a compute element
 *   f32xN_u, f64xN_u, ...                   unaligned types for whole vectors: *(f32x16_u *)p
 *   V cv_fma_DxN(a, b, c)                   a * b + c rounded once (f32, f64)
 *   cv_min_DxN, cv_exp_DxN, ...             the MAP ops
 *   element cv_hsum_DxN(v), hprod, hmax, hmin  over all lanes, by a fixed tree */
/* clang-format on */
#ifndef CV_COMPILER_RENDER_INTERNAL_H
#define CV_COMPILER_RENDER_INTERNAL_H

#include "compiler/render.h"

/* An index along one axis: mixed-radix digits, the most significant first, so that the position is
 * ((d0 * e1 + d1) * e2 + d2)...; extents multiply to the axis' extent. Digits keep reshapes free of
 * divisions, for symbolic dims too. */
enum { CV_MAX_DIGITS = 8 };
typedef struct {
  cv_expr at, extent;
} cv_digit;
typedef struct {
  int n; /* 0: position 0 */
  cv_digit digits[CV_MAX_DIGITS];
} cv_place;
typedef struct {
  int rank;
  cv_place axes[CV_MAX_RANK];
} cv_index;

typedef enum {
  CV_ROLE_DIM,       /* a symbol of the model: a kernel argument */
  CV_ROLE_LOOP,      /* a loop variable, the same for all lanes (or the lane variable itself) */
  CV_ROLE_INDEX,     /* an index read from a tensor, the same for all lanes */
  CV_ROLE_LANE_INDEX /* an index read from a tensor, an array over the lanes */
} cv_role;

/* A symbol of the body's pool as the generated code knows it. */
typedef struct {
  cv_role role;
  const char *text;      /* C text */
  const char *lane_text; /* C text for lane `l` inside a loop over the lanes */
  cv_expr extent;        /* of loops: [0, extent) */
} cv_name;

/* A digit that was divided by a reshape: whole = high * low_extent + low. */
typedef struct {
  cv_expr whole, high, low, low_extent;
} cv_split;

/* lo <= at < hi must hold for the elements read below. */
typedef struct {
  cv_expr at, lo, hi;
} cv_range;

/* A value at an index that already is in a C variable. */
typedef struct {
  cv_val value;
  cv_index at;
  const char *text; /* NULL: `sym` is the index read there */
  cv_sym sym;
} cv_known;

/* A C variable of an integer of 1 or 2 bytes, and the one of i32 that it was cut from. */
typedef struct {
  const char *text, *wide;
} cv_twin;

/* A value that is read from memory: `text` is the C pointer to element `base` of the row-major
 * tensor. */
typedef struct {
  cv_val value;
  const char *text;
  cv_expr base; /* subtracted from every offset */
  bool
      compute_form; /* elements are in compute form (f32 for f16 and bf16): an accumulator buffer */
} cv_buffer;

typedef struct cv_emit {
  const cv_target *target;
  cv_graph *body;
  cv_exprs *pool; /* the body's */
  cv_arena *arena;
  const char *name; /* prefix of all names */
  cv_str *out;      /* text goes here */
  int indent;

  int lanes;         /* of all vectors */
  cv_sym lane;       /* the loop variable that lanes run along: lane l is at lane + l */
  const char *count; /* C text of the number of valid lanes (<= 0: none), `int` */

  uint32_t n_ids;            /* counter of C variables */
  cv_vec(cv_name) names;     /* by symbol; text NULL: unknown */
  cv_vec(cv_sym) dims;       /* the kernel's dims, in order */
  cv_vec(cv_known) known;    /* a stack: see cv_emit_mark */
  cv_vec(cv_twin) twins;     /* variables are never reused, so none is taken off */
  cv_vec(cv_buffer) buffers; /* given buffers */
  cv_vec(cv_range) ranges;   /* what holds where code is emitted now: guards of loads */
  cv_vec(cv_split) cuts;     /* digits that were divided, to join them again */
  cv_vec(cv_expr) uses;      /* of a dry run: every index expression used */
  cv_vec(cv_digit) splits;   /* of a dry run: loop variables (at) better split by an inner extent */
  bool dry;                  /* emits nothing, fills uses and splits */
  cv_status status;          /* sticky; the sentence is this thread's */
} cv_emit;

/* Appends; memory that is out ends the process with a sentence. */
#define cv_emit_push(v, ...)                                                 \
  do {                                                                       \
    if ((v)->len == (v)->cap) {                                              \
      (v)->cap = (v)->cap ? 2 * (v)->cap : 8;                                \
      (v)->data = cv_realloc_or_die((v)->data, (v)->cap, sizeof *(v)->data); \
    }                                                                        \
    (v)->data[(v)->len++] = (__VA_ARGS__);                                   \
  } while (0)

/* Finds lanes and the model's symbols used. The emitter borrows all arguments. */
void cv_emit_init(cv_emit *emit, const cv_target *target, cv_graph *body, const char *name,
                  cv_arena *arena, cv_str *out);
void cv_emit_deinit(cv_emit *emit);
/* Sets the sticky error (first wins). */
void cv_emit_fail(cv_emit *emit, cv_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text. A line is indented and ended; open adds " {" and indents; close takes back and adds "}". */
void cv_emit_line(cv_emit *emit, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cv_emit_open(cv_emit *emit, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cv_emit_block(cv_emit *emit); /* "{" alone */
void cv_emit_close(cv_emit *emit);
/* A fresh C name: "t12". In the arena. */
const char *cv_emit_id(cv_emit *emit, const char *prefix);
const char *cv_emit_format(cv_emit *emit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The functions of a kernel. begin_prepare: opens NAME_prepare with the dims as named constants and
 * `plan` zeroed but for phases 1. begin_run: opens NAME_run with dims, `int bad = 0`, and the
 * pointers: p0.. inputs (const, of storage type), q0.. outputs, w0.. packed weights (const char *).
 * begin_pack: NAME_pack (which, ptrs, dims, out) with dims, inputs and `bad`. end closes any with
 * the return. */
void cv_emit_begin_prepare(cv_emit *emit);
void cv_emit_begin_run(cv_emit *emit, uint32_t n_packs);
void cv_emit_begin_pack(cv_emit *emit);
/* The constants `batch = dims[0]` at the head of any other function that takes `dims`. */
void cv_emit_dims(cv_emit *emit);
void cv_emit_end(cv_emit *emit, const char *result);
/* Header comment: pattern, variant, shapes of params and results, ops, flops. */
void cv_emit_comment(cv_emit *emit, const char *variant);
/* Fills n_dims, dims, reads_raw (all true), variant. */
void cv_emit_rendered(cv_emit *emit, const char *variant, cv_rendered *out_rendered);

/* A loop variable with a C name; no text. Its values are [0, extent). */
cv_sym cv_emit_axis(cv_emit *emit, const char *name, cv_expr extent);
/* C text of an expression of loop variables and dims (int64_t). */
const char *cv_emit_expr(cv_emit *emit, cv_expr e);
/* The same inside a loop over lanes `l`. */
const char *cv_emit_lane_expr(cv_emit *emit, cv_expr e);
/* A symbol for an index read from a tensor into C variable `text` (an array by lane unless
 * uniform). */
cv_sym cv_emit_index_symbol(cv_emit *emit, const char *text, bool uniform, cv_expr extent);
cv_expr cv_emit_product(cv_emit *emit, const cv_expr *dims, int n);
cv_expr cv_emit_count_of(cv_emit *emit, cv_val value); /* product of its dims */
/* True if e is the same for all lanes. */
bool cv_emit_uniform(const cv_emit *emit, cv_expr e);

/* Indices. One digit an axis; dims of the value. */
void cv_index_init(cv_emit *emit, cv_val value, const cv_expr *at, cv_index *out_index);
/* The position along an axis, and the row-major offset in the value. */
cv_expr cv_index_axis(cv_emit *emit, const cv_index *index, int axis);
cv_expr cv_index_offset(cv_emit *emit, cv_val value, const cv_index *index);
/* The same elements under other dims: an index into a tensor with `dims` from one into a tensor of
 * equal count. */
void cv_index_reshape(cv_emit *emit, const cv_index *from, const cv_expr *dims, int rank,
                      cv_index *out_index);
/* The index in `to` that reads `from` at `at`, where `to` depends on `from` through MAP nodes,
 * reshapes and transposes: where an epilogue's result is stored. False if there is another op
 * between. */
bool cv_index_forward(cv_emit *emit, cv_val from, const cv_index *at, cv_val to,
                      cv_index *out_index);
/* The index in a MOVE node's operand of what its result has at `at`: reshape, transpose, broadcast,
 * slice; false for others. unpad: of a pad, with the ranges where the operand is (their number is
 * returned). */
bool cv_index_back(cv_emit *emit, const cv_node *node, const cv_index *at, cv_index *out_index);
int cv_index_unpad(cv_emit *emit, const cv_node *node, const cv_index *at, cv_index *out_index,
                   cv_range *out_ranges);
/* Where a chain of MOVE nodes ends: the param and the offset in it, plus the ranges outside of
 * which the value is `fill` (a constant pad value). False if the chain holds anything else (concat,
 * gather, MAP). */
typedef struct {
  cv_val param;
  cv_expr offset;
  int n_ranges;
  cv_range ranges[2 * CV_MAX_RANK];
  cv_val fill; /* CV_POISON if no pad */
} cv_access;
bool cv_index_access(cv_emit *emit, cv_val value, const cv_index *at, cv_access *out_access);

/* Values. `give` names a C variable (in compute form) that holds the value at that index; `buffer`
 * a memory it is read from. */
void cv_emit_give(cv_emit *emit, cv_val value, const cv_index *at, const char *text);
void cv_emit_give_buffer(cv_emit *emit, cv_val value, const char *pointer, cv_expr base,
                         bool compute_form);
/* Emits what is needed and returns the C variable (compute form) of the value's lanes. */
const char *cv_emit_value(cv_emit *emit, cv_val value, const cv_index *at);
/* Stores lanes of compute form into the pointer's row-major storage at the value's index. */
void cv_emit_store(cv_emit *emit, cv_val value, const char *pointer, const cv_index *at,
                   const char *text);
/* Evaluates all results of the body and stores them to q0, q1, ...; `from` at `at` is given
 * (usually the anchor's accumulator), the results' indices follow by cv_index_forward. */
void cv_emit_results(cv_emit *emit, cv_val from, const cv_index *at);
/* Variables known at a point; release forgets those made since (when their C block closes). */
size_t cv_emit_mark(const cv_emit *emit);
void cv_emit_release(cv_emit *emit, size_t mark);

/* C types: of storage ("float"; f16 is uint16_t), of compute elements and vectors. */
const char *cv_storage_type(cv_dtype dtype);
const char *cv_element_type(cv_dtype dtype);
const char *cv_vector_type(const cv_emit *emit, cv_dtype dtype);
cv_dtype cv_compute_dtype(cv_dtype dtype); /* f32 for f16 and bf16 */
/* "f16x16": the prelude's name of a dtype at the emitter's lanes. */
const char *cv_suffix(const cv_emit *emit, cv_dtype dtype);
/* A literal of a compute element (floats in hex). */
const char *cv_literal(cv_emit *emit, cv_dtype dtype, const void *element);
const char *cv_storage_literal(cv_emit *emit, cv_dtype dtype, const void *element);
/* The anchor of a body: its node of that class, NULL if there is none. */
cv_node *cv_body_anchor(const cv_graph *body, cv_op_class class_);

/* Templates: append the kernel. */
cv_status cv_render_map(cv_emit *emit, cv_rendered *out_rendered);
cv_status cv_render_row(cv_emit *emit, cv_rendered *out_rendered);
cv_status cv_render_reduce(cv_emit *emit, cv_rendered *out_rendered);
cv_status cv_render_contraction(cv_emit *emit, cv_rendered *out_rendered);
cv_status cv_render_window(cv_emit *emit, cv_rendered *out_rendered);
cv_status cv_render_routine(cv_emit *emit, cv_rendered *out_rendered);

/* The C prelude for the kernels in `code` on a target: types, loads, stores, conversions and those
 * functions that occur in `code`. */
void cv_prelude(const cv_target *target, const char *code, cv_str *out);
extern const char cv_abi_text[]; /* kernel_abi.h for generated code */
/* A whole translation unit but for the table: ABI, preludes, kernels. */
void cv_unit_source(const cv_target *target, const char *kernels_text, cv_str *out);

#endif
