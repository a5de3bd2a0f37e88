/* Losses over classes: axis 1 of [n, c, d..]; targets [n, d..]. */
#include <string.h>

#include "compiler/onnx/build.h"
#include "compiler/onnx/table.h"

/* The negated log probability of each target, weighted, then reduced as the node says. */
static cv_val nll(cv_on *n, cv_val logp, cv_val target, cv_val weight) {
  cv_graph *g = n->g;
  const char *reduction = cv_on_text(n, "reduction", "mean");
  cv_val at = cv_cast(g, target, CV_I64), kept = CV_ABSENT, w = CV_ABSENT;
  cv_val zero = cv_num(g, logp, 0), one = cv_num(g, logp, 1);
  if (cv_on_attr(n, "ignore_index")) {
    kept = cv_not(g, cv_eq(g, at, cv_graph_i64(g, cv_on_int(n, "ignore_index", 0))));
    at = cv_select(g, kept, at, cv_graph_i64(g, 0));
  }
  cv_val places = cv_element_indices(g, cv_unsqueeze(g, at, 1), 1);
  cv_val loss = cv_neg(g, cv_squeeze(g, cv_gather_nd(g, logp, places, 0), 2));
  if (weight != CV_ABSENT) w = cv_gather(g, cv_cast(g, weight, cv_dt(g, logp)), at, 0);
  if (kept != CV_ABSENT) w = cv_select(g, kept, w == CV_ABSENT ? one : w, zero);
  if (w != CV_ABSENT) {
    w = cv_broadcast_to(g, w, cv_dims_of(g, loss), cv_rank(g, loss));
    loss = cv_mul(g, loss, w);
  }
  uint32_t all = (1u << cv_rank(g, loss)) - 1;
  if (strcmp(reduction, "none") == 0) return loss;
  cv_val sum = cv_reduce(g, loss, "sum", all, false);
  if (strcmp(reduction, "sum") == 0) return sum;
  cv_val count =
      w == CV_ABSENT ? cv_extent(g, loss, all, cv_dt(g, loss)) : cv_reduce(g, w, "sum", all, false);
  return cv_div(g, sum, count);
}

void cv_import_nll_loss(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0);
  cv_val y = nll(n, cv_widen(g, x), cv_on_in(n, 1), cv_on_in(n, 2));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
}

void cv_import_softmax_loss(cv_on *n) {
  cv_graph *g = n->g;
  cv_val x = cv_on_in(n, 0), logp = cv_log_softmax(g, cv_widen(g, x), 2);
  cv_val y = nll(n, logp, cv_on_in(n, 1), cv_on_in(n, 2));
  cv_on_set(n, 0, cv_cast(g, y, cv_dt(g, x)));
  cv_on_set(n, 1, cv_cast(g, logp, cv_dt(g, x)));
}
