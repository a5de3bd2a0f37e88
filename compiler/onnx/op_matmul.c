/* Matrix products, in float and in integers. */
#include "compiler/onnx/build.h"
#include "compiler/onnx/quant.h"
#include "compiler/onnx/table.h"

void cv_import_matmul(cv_on *n) {
  cv_val a = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_matmul_bc(n->g, a, cv_on_in(n, 1), cv_dt(n->g, a)));
}

static cv_val scaled(cv_graph *g, cv_val x, double factor) {
  return factor == 1 ? x : cv_mul(g, x, cv_num(g, x, factor));
}

/* alpha A' B' + beta C */
void cv_import_gemm(cv_on *n) {
  cv_graph *g = n->g;
  cv_val a = cv_on_in(n, 0), b = cv_on_in(n, 1);
  if (cv_rank(g, a) != 2 || cv_rank(g, b) != 2) {
    cv_on_fail(n, CV_INVALID, "A and B must be matrices");
    return;
  }
  if (cv_on_int(n, "transA", 0)) a = cv_swap(g, a, 0, 1);
  if (cv_on_int(n, "transB", 0)) b = cv_swap(g, b, 0, 1);
  cv_match_inner(g, &a, &b);
  cv_val y = scaled(g, cv_matmul(g, a, b, cv_dt(g, a)), cv_on_float(n, "alpha", 1));
  if (cv_on_has(n, 2)) {
    y = cv_add(g, y, scaled(g, cv_on_in(n, 2), cv_on_float(n, "beta", 1)));
  }
  cv_on_set(n, 0, y);
}

/* True if a zero point is absent or constant zeros. */
static bool no_zero_point(cv_graph *g, cv_val zero) {
  uint64_t count;
  if (zero == CV_ABSENT) return true;
  const int64_t *values = cv_graph_ints(g, zero, &count);
  for (uint64_t i = 0; values && i < count; i++) {
    if (values[i] != 0) return false;
  }
  return values != NULL;
}

/* A zero point of one dim per row ([m]) or column ([n]) of the matrix, ready to broadcast. */
static cv_val zero_of(cv_graph *g, cv_val zero, bool rows) {
  zero = cv_cast(g, zero, CV_I32);
  return rows && cv_rank(g, zero) == 1 ? cv_unsqueeze(g, zero, 1) : zero;
}

/* sum over k of (a - za)(b - zb) = ab - za sum(b) - sum(a) zb + k za zb: the product itself stays
 * one of 8-bit integers. Vectors take the plain form. */
cv_val cv_matmul_zero(cv_graph *g, cv_val a, cv_val za, cv_val b, cv_val zb) {
  bool plain_a = no_zero_point(g, za), plain_b = no_zero_point(g, zb);
  int ra = cv_rank(g, a), rb = cv_rank(g, b);
  if (ra < 2 || rb < 2) {
    cv_val wa = cv_cast(g, a, CV_I32), wb = cv_cast(g, b, CV_I32);
    if (!plain_a) wa = cv_sub(g, wa, zero_of(g, za, false));
    if (!plain_b) wb = cv_sub(g, wb, zero_of(g, zb, false));
    return cv_matmul_bc(g, wa, wb, CV_I32);
  }
  cv_val y = cv_matmul_bc(g, a, b, CV_I32);
  if (!plain_a) {
    za = zero_of(g, za, true);
    cv_val sums = cv_reduce(g, cv_cast(g, b, CV_I32), "sum", 1u << (rb - 2), true);
    y = cv_sub(g, y, cv_mul(g, za, sums));
  }
  if (!plain_b) {
    zb = zero_of(g, zb, false);
    cv_val sums = cv_reduce(g, cv_cast(g, a, CV_I32), "sum", 1u << (ra - 1), true);
    y = cv_sub(g, y, cv_mul(g, sums, zb));
  }
  if (!plain_a && !plain_b) {
    cv_val k = cv_extent(g, a, 1u << (ra - 1), CV_I32);
    y = cv_add(g, y, cv_mul(g, k, cv_mul(g, za, zb)));
  }
  return y;
}

void cv_import_matmul_integer(cv_on *n) {
  cv_on_set(n, 0,
            cv_matmul_zero(n->g, cv_on_in(n, 0), cv_on_in(n, 2), cv_on_in(n, 1), cv_on_in(n, 3)));
}

/* A scale or zero point of one dim stands for rows of the left operand. */
static cv_val per_row(cv_graph *g, cv_val v) {
  if (cv_rank(g, v) == 1 && !e_is(g, cv_dim(g, v, 0), 1)) return cv_unsqueeze(g, v, 1);
  return v;
}

/* (a, sa, za, b, sb, zb, sy, zy) */
void cv_import_qlinear_matmul(cv_on *n) {
  cv_graph *g = n->g;
  cv_val sum = cv_matmul_zero(g, cv_on_in(n, 0), cv_on_in(n, 2), cv_on_in(n, 3), cv_on_in(n, 5));
  cv_val scale =
      cv_mul(g, cv_cast(g, per_row(g, cv_on_in(n, 1)), CV_F32), cv_cast(g, cv_on_in(n, 4), CV_F32));
  scale = cv_div(g, scale, cv_cast(g, per_row(g, cv_on_in(n, 6)), CV_F32));
  cv_val y = cv_mul(g, cv_cast(g, sum, CV_F32), scale);
  cv_on_set(n, 0, cv_saturate(g, y, per_row(g, cv_on_in(n, 7)), cv_dt(g, cv_on_in(n, 7))));
}
