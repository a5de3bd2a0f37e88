/* Col2Im: the blocks of an image, columns of a matrix, are added up where they lie. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

enum { MAX_SPATIAL = CV_MAX_RANK - 2, MAX_PLACES = 1 << 24 };

typedef struct {
  int spatial;
  int64_t image[MAX_SPATIAL], block[MAX_SPATIAL];
  int64_t dilations[MAX_SPATIAL], strides[MAX_SPATIAL], before[MAX_SPATIAL], after[MAX_SPATIAL];
  int64_t steps[MAX_SPATIAL];                     /* blocks along each axis */
  int64_t in_block, columns, padded[MAX_SPATIAL]; /* products of block and steps; image and pads */
} blocks;

/* A list attribute of `n` numbers, each at least `least`; absent: all `otherwise`. */
static bool read_list(cv_on *n, const char *name, uint32_t want, int64_t least, int64_t otherwise,
                      int64_t *out) {
  uint32_t count;
  const int64_t *given = cv_on_ints(n, name, &count);
  if (given && count != want) {
    cv_on_fail(n, CV_INVALID, "%s has %u entries, %u are needed", name, count, want);
    return false;
  }
  for (uint32_t i = 0; i < want; i++) {
    out[i] = given ? given[i] : otherwise;
    if (out[i] >= least && out[i] <= CV_ONNX_MAX_DIM) continue;
    cv_on_fail(n, CV_INVALID, "%s holds %lld", name, (long long)out[i]);
    return false;
  }
  return true;
}

static bool read_shape(cv_on *n, uint32_t input, const char *what, int64_t *out, int *out_count) {
  uint32_t count;
  const int64_t *given = cv_on_known_ints(n, input, what, &count);
  if (!given) return false;
  if (count < 1 || count > MAX_SPATIAL) {
    cv_on_fail(n, CV_UNSUPPORTED, "%s has %u entries, 1 to %d are taken", what, count, MAX_SPATIAL);
    return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    out[i] = given[i];
    if (out[i] >= 1 && out[i] <= CV_ONNX_MAX_DIM) continue;
    cv_on_fail(n, CV_INVALID, "%s holds %lld", what, (long long)out[i]);
    return false;
  }
  *out_count = (int)count;
  return true;
}

static bool read_blocks(cv_on *n, blocks *b) {
  int same;
  int64_t pads[2 * MAX_SPATIAL];
  if (!read_shape(n, 1, "image_shape", b->image, &b->spatial) ||
      !read_shape(n, 2, "block_shape", b->block, &same))
    return false;
  if (same != b->spatial) {
    cv_on_fail(n, CV_INVALID, "an image of %d dims and blocks of %d", b->spatial, same);
    return false;
  }
  uint32_t count = (uint32_t)b->spatial;
  if (!read_list(n, "dilations", count, 1, 1, b->dilations) ||
      !read_list(n, "strides", count, 1, 1, b->strides) ||
      !read_list(n, "pads", 2 * count, 0, 0, pads))
    return false;
  b->in_block = b->columns = 1;
  for (int d = 0; d < b->spatial; d++) {
    b->before[d] = pads[d];
    b->after[d] = pads[d + b->spatial];
    b->padded[d] = b->image[d] + b->before[d] + b->after[d];
    int64_t room = b->padded[d] - b->dilations[d] * (b->block[d] - 1) - 1;
    b->steps[d] = room < 0 ? 0 : room / b->strides[d] + 1;
    b->in_block *= b->block[d];
    b->columns *= b->steps[d];
    if (b->in_block <= MAX_PLACES && b->columns <= MAX_PLACES) continue;
    cv_on_fail(n, CV_UNSUPPORTED, "more than %d blocks or elements of one", MAX_PLACES);
    return false;
  }
  if (b->columns >= 1 && b->in_block * b->columns <= MAX_PLACES) return true;
  cv_on_fail(n, CV_INVALID, "%lld blocks of %lld elements: at most %d places are taken, at least 1",
             (long long)b->columns, (long long)b->in_block, MAX_PLACES);
  return false;
}

/* Where in the padded image element k of block l lies: i64 [in_block, columns, 1]. */
static cv_val places(cv_on *n, const blocks *b) {
  cv_graph *g = n->g;
  int64_t dims[3] = {b->in_block, b->columns, 1};
  int64_t *at = cv_arena_array(&g->arena, int64_t, (size_t)(b->in_block * b->columns));
  for (int64_t i = 0; i < b->in_block * b->columns; i++) {
    int64_t k = i / b->columns, l = i % b->columns, size = 1;
    at[i] = 0;
    for (int d = b->spatial - 1; d >= 0; d--) {
      at[i] += size * (l % b->steps[d] * b->strides[d] + k % b->block[d] * b->dilations[d]);
      size *= b->padded[d];
      k /= b->block[d];
      l /= b->steps[d];
    }
  }
  return cv_graph_const_borrowed(g, CV_I64, 3, dims, at);
}

/* x [n, c * in_block, columns] to [n, c, image..]. */
void cv_import_col2im(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  blocks b = {0};
  if (cv_rank(g, x) != 3) {
    cv_on_fail(n, CV_INVALID, "its input is %s: [n, channels * block, blocks] is needed",
               cv_type_text(g, cv_ty(g, x)));
    return;
  }
  if (!read_blocks(n, &b)) return;
  cv_expr in_block = e_const(g, b.in_block);
  cv_expr images = cv_dim(g, x, 0), channels = e_div(g, cv_dim(g, x, 1), in_block);
  cv_expr wanted[3] = {images, e_mul(g, channels, in_block), e_const(g, b.columns)};
  x = cv_assume_dims(g, x, wanted, 3);
  cv_expr planes = e_mul(g, images, channels), size = e_const(g, 1);
  cv_expr three[3] = {planes, in_block, e_const(g, b.columns)};
  cv_val updates = cv_transpose(g, cv_reshape(g, x, three, 3), (const int64_t[]){1, 2, 0});
  cv_expr dims[CV_MAX_RANK] = {images, channels};
  for (int d = 0; d < b.spatial; d++) {
    dims[2 + d] = e_const(g, b.padded[d]);
    size = e_mul(g, size, dims[2 + d]);
  }
  cv_val empty = cv_full(g, cv_dt(g, x), (const cv_expr[]){size, planes}, 2, 0);
  cv_val y = cv_swap(g, cv_scatter(g, empty, places(n, &b), updates, "add"), 0, 1);
  y = cv_reshape(g, y, dims, 2 + b.spatial);
  for (int d = 0; d < b.spatial; d++) y = cv_slice_const(g, y, 2 + d, b.before[d], b.image[d]);
  cv_on_set(n, 0, y);
}
