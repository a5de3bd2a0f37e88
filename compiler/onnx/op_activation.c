/* Activations. Those of more than a handful of core ops are named regions. */
#include <math.h>
#include <string.h>

#include "compiler/onnx/activation.h"
#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

static cv_val relu(cv_graph *g, cv_val x) { return cv_max2(g, x, cv_num(g, x, 0)); }

static cv_val where_negative(cv_graph *g, cv_val x, cv_val negative, cv_val other) {
  return cv_select(g, cv_lt(g, x, cv_num(g, x, 0)), negative, other);
}

static cv_val leaky(cv_graph *g, cv_val x, double alpha) {
  return where_negative(g, x, cv_mul_num(g, x, alpha), x);
}

/* scale * alpha * (exp(x) - 1) below 0, scale * x above. */
static cv_val elu(cv_graph *g, cv_val x, double alpha, double scale) {
  cv_val low = cv_mul_num(g, cv_add_num(g, cv_exp(g, x), -1), alpha * scale);
  return where_negative(g, x, low, scale == 1 ? x : cv_mul_num(g, x, scale));
}

static cv_val hard_sigmoid(cv_graph *g, cv_val x, double alpha, double beta) {
  cv_val y = cv_add_num(g, cv_mul_num(g, x, alpha), beta);
  return cv_max2(g, cv_min2(g, y, cv_num(g, y, 1)), cv_num(g, y, 0));
}

static cv_val softsign(cv_graph *g, cv_val x) {
  return cv_div(g, x, cv_add_num(g, cv_abs(g, x), 1));
}

static cv_val thresholded(cv_graph *g, cv_val x, double alpha) {
  return cv_select(g, cv_lt(g, cv_num(g, x, alpha), x), x, cv_num(g, x, 0));
}

cv_val cv_activation(cv_graph *g, const char *name, cv_val x, double alpha, double beta) {
  static const struct {
    const char *name;
    double alpha, beta;
  } defaults[] = {{"LeakyRelu", 0.01, 0}, {"ThresholdedRelu", 1, 0}, {"HardSigmoid", 0.2, 0.5},
                  {"Elu", 1, 0},          {"Affine", 1, 0},          {"ScaledTanh", 1, 1}};
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
    if (strcmp(name, defaults[i].name) != 0) continue;
    if (isnan(alpha)) alpha = defaults[i].alpha;
    if (isnan(beta)) beta = defaults[i].beta;
  }
  if (strcmp(name, "Sigmoid") == 0) return cv_sigmoid(g, x);
  if (strcmp(name, "Tanh") == 0) return cv_unary(g, CV_OP_tanh, x);
  if (strcmp(name, "Relu") == 0) return relu(g, x);
  if (strcmp(name, "Softsign") == 0) return softsign(g, x);
  if (strcmp(name, "Softplus") == 0) return cv_softplus(g, x);
  if (strcmp(name, "LeakyRelu") == 0) return leaky(g, x, alpha);
  if (strcmp(name, "ThresholdedRelu") == 0) return thresholded(g, x, alpha);
  if (strcmp(name, "HardSigmoid") == 0) return hard_sigmoid(g, x, alpha, beta);
  if (strcmp(name, "Elu") == 0) return elu(g, x, alpha, 1);
  if (strcmp(name, "Affine") == 0) return cv_add_num(g, cv_mul_num(g, x, alpha), beta);
  if (strcmp(name, "ScaledTanh") == 0) {
    return cv_mul_num(g, cv_unary(g, CV_OP_tanh, cv_mul_num(g, x, beta)), alpha);
  }
  return cv_graph_fail(g, CV_UNSUPPORTED, "the activation \"%s\" is not supported", name);
}

/* Relu, Sigmoid, Softplus, Softsign: no parameters. */
void cv_import_activation(cv_on *n) {
  cv_on_set(n, 0, cv_activation(n->g, n->row->op, cv_on_in(n, 0), NAN, NAN));
}

/* LeakyRelu, ThresholdedRelu, HardSigmoid, Elu. */
void cv_import_activation_alpha(cv_on *n) {
  cv_on_set(n, 0,
            cv_activation(n->g, n->row->op, cv_on_in(n, 0), cv_on_float(n, "alpha", NAN),
                          cv_on_float(n, "beta", NAN)));
}

void cv_import_selu(cv_on *n) {
  double alpha = cv_on_float(n, "alpha", 1.67326319217681884765625);
  double gamma = cv_on_float(n, "gamma", 1.05070102214813232421875);
  cv_on_set(n, 0, elu(n->g, cv_on_in(n, 0), alpha, gamma));
}

/* max(0, x) + min(0, alpha (exp(x / alpha) - 1)) */
void cv_import_celu(cv_on *n) {
  cv_graph *g = n->g;
  double alpha = cv_on_float(n, "alpha", 1);
  cv_val x = cv_on_in(n, 0), zero = cv_num(g, x, 0);
  cv_val low = cv_add_num(g, cv_exp(g, cv_div(g, x, cv_num(g, x, alpha))), -1);
  low = cv_min2(g, zero, cv_mul_num(g, low, alpha));
  cv_on_set(n, 0, cv_add(g, cv_max2(g, x, zero), low));
}

void cv_import_hard_swish(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_mul(n->g, x, hard_sigmoid(n->g, x, 1.0 / 6, 0.5)));
}

/* The slope broadcasts to x; before opset 7 it is one per channel. */
void cv_import_prelu(cv_on *n) {
  cv_val x = cv_on_in(n, 0), slope = cv_on_in(n, 1);
  int rank = cv_rank(n->g, x);
  if (n->opset < 7 && cv_rank(n->g, slope) == 1 && rank > 1 &&
      !e_is(n->g, cv_dim(n->g, slope, 0), 1)) {
    slope = cv_along(n->g, slope, 1, rank);
  }
  cv_on_set(n, 0, where_negative(n->g, x, cv_mul(n->g, x, slope), x));
}

/* x - bias above lambd, x + bias below -lambd, else 0. */
void cv_import_shrink(cv_on *n) {
  cv_graph *g = n->g;
  double lambd = cv_on_float(n, "lambd", 0.5), bias = cv_on_float(n, "bias", 0);
  cv_val x = cv_on_in(n, 0);
  cv_val high = cv_lt(g, cv_num(g, x, lambd), x), low = cv_lt(g, x, cv_num(g, x, -lambd));
  cv_val y = cv_select(g, low, cv_add_num(g, x, bias), cv_num(g, x, 0));
  cv_on_set(n, 0, cv_select(g, high, cv_add_num(g, x, -bias), y));
}

cv_val cv_gelu(cv_graph *g, cv_val x, bool by_tanh) {
  cv_val wide = cv_widen(g, x), inner;
  if (by_tanh) {
    cv_val cube = cv_mul(g, wide, cv_square(g, wide));
    inner = cv_add(g, wide, cv_mul_num(g, cube, 0.044715));
    inner = cv_unary(g, CV_OP_tanh, cv_mul_num(g, inner, sqrt(2 / M_PI)));
  } else {
    inner = cv_unary(g, CV_OP_erf, cv_mul_num(g, wide, M_SQRT1_2));
  }
  cv_val y = cv_mul(g, cv_mul_num(g, wide, 0.5), cv_add_num(g, inner, 1));
  return cv_cast(g, y, cv_dt(g, x));
}

void cv_import_gelu(cv_on *n) {
  bool by_tanh = strcmp(cv_on_text(n, "approximate", "none"), "tanh") == 0;
  cv_on_set(n, 0, cv_gelu(n->g, cv_on_in(n, 0), by_tanh));
}

void cv_import_mish(cv_on *n) {
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_mul(n->g, x, cv_unary(n->g, CV_OP_tanh, cv_softplus(n->g, x))));
}

/* x sigmoid(alpha x) */
void cv_import_swish(cv_on *n) {
  cv_graph *g = n->g;
  double alpha = cv_on_float(n, "alpha", 1);
  cv_val x = cv_on_in(n, 0);
  cv_on_set(n, 0, cv_mul(g, x, cv_sigmoid(g, alpha == 1 ? x : cv_mul_num(g, x, alpha))));
}

/* Softmax and LogSoftmax: before opset 13 over all axes from `axis` on (a matrix), then over one.
 */
void cv_import_softmax(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  int rank = cv_rank(g, x);
  bool old = n->opset < 13;
  int64_t given = cv_on_int(n, "axis", old ? 1 : -1);
  if (rank == 0) {
    cv_on_fail(n, CV_INVALID, "a scalar has no axis to normalise over");
    return;
  }
  int axis = old && given == rank ? rank : cv_on_axis(n, given, rank);
  uint32_t all = (1u << rank) - 1;
  uint32_t axes = old ? all & ~((1u << axis) - 1) : 1u << axis;
  bool logarithm = n->row->arg != 0;
  cv_on_set(n, 0, logarithm ? cv_log_softmax(g, x, axes) : cv_softmax(g, x, axes));
}

/* 1 at the first maximum, else 0; before opset 13 of a matrix [.. axis, axis ..]. */
void cv_import_hardmax(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), y = x;
  int rank = cv_rank(g, x);
  bool old = n->opset < 13;
  int axis = cv_on_axis(n, cv_on_int(n, "axis", old ? 1 : -1), rank);
  if (old) {
    cv_expr dims[2] = {e_count(g, x, 0, axis), e_count(g, x, axis, rank)};
    y = cv_reshape(g, x, dims, 2);
    axis = 1;
  }
  cv_attr attrs[3] = {{.key = CV_ATTR_KIND, .text = "max"},
                      {.key = CV_ATTR_AXIS, .i = axis},
                      {.key = CV_ATTR_LAST, .i = 0}};
  cv_val best = cv_unsqueeze(g, cv_build(g, CV_OP_arg, &y, 1, attrs, 3), axis);
  cv_val index = cv_index_along(g, cv_dim(g, y, axis), axis, cv_rank(g, y));
  y = cv_cast(g, cv_eq(g, index, best), cv_dt(g, x));
  cv_on_set(n, 0, old ? cv_reshape(g, y, cv_dims_of(g, x), rank) : y);
}
