/* The map template: elementwise work over an index space, movement folded into index expressions.
 * A concat that ends the body is written part by part. */
#include "compiler/loops.h"

/* A part of a concat that is the whole body, and where it starts. */
typedef struct {
  const cv_node *concat;
  cv_val value;
  cv_expr start;
} part;

static void write_all(cv_emit *emit, const cv_loops *loops) {
  cv_emit_results(emit, emit->body->body->results.data[0], &loops->at);
}

static void write_part(cv_emit *emit, const cv_loops *loops) {
  const part *p = loops->context;
  cv_val result = p->concat->outs[0];
  int axis = (int)cv_node_int(p->concat, CV_ATTR_AXIS);
  cv_index at = loops->at;
  cv_expr whole = cv_type_of(emit->body, result)->dims[axis];
  cv_expr position = cv_expr_add(emit->pool, cv_index_axis(emit, &at, axis), p->start);
  at.axes[axis].n = 1;
  at.axes[axis].digits[0] = (cv_digit){position, whole};
  cv_emit_store(emit, result, "q0", &at, cv_emit_value(emit, p->value, &loops->at));
}

static const cv_node *final_concat(const cv_graph *body) {
  if (body->body->results.len != 1) return NULL;
  const cv_node *node = cv_value_of(body, body->body->results.data[0])->def;
  return node != NULL && node->op == CV_OP_concat && node->n_ins > 1 ? node : NULL;
}

static uint32_t plan_parts(cv_emit *emit, const cv_node *concat, cv_loops *loops) {
  int axis = (int)cv_node_int(concat, CV_ATTR_AXIS);
  cv_expr start = cv_expr_const(emit->pool, 0);
  part *parts = cv_arena_array(emit->arena, part, concat->n_ins);
  for (uint32_t i = 0; i < concat->n_ins; i++) {
    parts[i] = (part){concat, concat->ins[i], start};
    loops[i] = (cv_loops){.body = write_part, .context = &parts[i]};
    cv_loops_plan(emit, concat->ins[i], 0, &loops[i]);
    cv_loops_block(emit, &loops[i]);
    start = cv_expr_add(emit->pool, start, cv_type_of(emit->body, concat->ins[i])->dims[axis]);
  }
  return concat->n_ins;
}

static uint32_t plan_whole(cv_emit *emit, cv_loops *loops) {
  *loops = (cv_loops){.body = write_all};
  cv_loops_plan(emit, emit->body->body->results.data[0], 0, loops);
  cv_loops_block(emit, loops);
  return 1;
}

cv_status cv_render_map(cv_emit *emit, cv_rendered *out_rendered) {
  const cv_node *concat = final_concat(emit->body);
  cv_loops *loops = cv_arena_array(emit->arena, cv_loops, concat ? concat->n_ins : 1);
  uint32_t n = concat ? plan_parts(emit, concat, loops) : plan_whole(emit, loops);
  const char *variant = cv_emit_format(emit, "map, %d lanes, %d axes%s", emit->lanes, loops[0].n,
                                       loops[0].blocked ? ", blocked" : "");
  cv_emit_comment(emit, variant);
  cv_emit_begin_prepare(emit);
  for (uint32_t i = 0; i < n; i++) cv_loops_tasks(emit, &loops[i], "plan->tasks[0]");
  cv_emit_end(emit, "0");
  cv_emit_begin_run(emit, 0);
  cv_emit_line(emit, "int64_t base = 0;");
  for (uint32_t i = 0; i < n; i++) cv_loops_write(emit, &loops[i]);
  cv_emit_end(emit, "bad");
  cv_emit_rendered(emit, variant, out_rendered);
  return emit->status;
}
