#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "runtime/manifest_internal.h"
#include "runtime/msgpack.h"

/* One section: its records in `out`, and the expressions they name, by number. */
typedef struct {
  cv_str out;
  const cv_exprs *pool;
  cv_map numbers; /* expression id -> number */
  cv_vec(cv_expr) exprs;
  bool failed;
} section;

static void section_deinit(section *s) {
  cv_str_deinit(&s->out);
  cv_map_deinit(&s->numbers);
  cv_vec_deinit(&s->exprs);
}

static void put_expr(section *s, cv_expr e) {
  if (e == CV_EXPR_NONE) {
    cv_mp_put_nil(&s->out);
    return;
  }
  uint64_t number;
  if (!cv_map_get(&s->numbers, &e, sizeof e, &number)) {
    number = s->exprs.len;
    if (!cv_vec_push(&s->exprs, e) || !cv_map_put(&s->numbers, &e, sizeof e, number))
      s->failed = true;
  }
  cv_mp_put_uint(&s->out, number);
}

static void put_exprs(section *s, const cv_expr *exprs, uint32_t count) {
  cv_mp_put_array(&s->out, count);
  for (uint32_t i = 0; i < count; i++) put_expr(s, exprs[i]);
}

/* An id, or nil for CV_NONE. */
static void put_id(cv_str *out, uint32_t id) {
  if (id == CV_NONE)
    cv_mp_put_nil(out);
  else
    cv_mp_put_uint(out, id);
}

static void put_ids(cv_str *out, const uint32_t *ids, uint32_t count) {
  cv_mp_put_array(out, count);
  for (uint32_t i = 0; i < count; i++) put_id(out, ids[i]);
}

static void put_text(cv_str *out, const char *text) {
  if (text)
    cv_mp_put_text(out, text);
  else
    cv_mp_put_nil(out);
}

static void put_binds(cv_str *out, const cv_bind *binds, uint32_t count) {
  cv_mp_put_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    cv_mp_put_array(out, 3);
    cv_mp_put_uint(out, binds[i].sym);
    cv_mp_put_uint(out, binds[i].value);
    cv_mp_put_uint(out, binds[i].element);
  }
}

static void put_ports(cv_str *out, const cv_port *ports, uint32_t count) {
  cv_mp_put_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    cv_mp_put_array(out, 3);
    cv_mp_put_uint(out, ports[i].value);
    cv_mp_put_int(out, ports[i].batch_axis);
    cv_mp_put_int(out, ports[i].batch_factor);
  }
}

static void put_value(section *s, const cv_value *value) {
  cv_mp_put_array(&s->out, 7);
  cv_mp_put_text(&s->out, value->name);
  cv_mp_put_uint(&s->out, (uint64_t)value->kind);
  cv_mp_put_uint(&s->out, (uint64_t)cv_dtype_onnx(value->dtype));
  put_exprs(s, value->dims, value->rank);
  put_expr(s, value->guard);
  cv_mp_put_uint(&s->out, value->source);
  cv_mp_put_bool(&s->out, value->fixed_width);
}

static void put_block(section *s, const cv_program *program);

static void put_loop(section *s, const cv_loop *loop) {
  cv_mp_put_array(&s->out, 6);
  cv_mp_put_uint(&s->out, loop->carried);
  cv_mp_put_uint(&s->out, loop->stacked);
  cv_mp_put_uint(&s->out, loop->captured);
  put_id(&s->out, loop->trips);
  cv_mp_put_int(&s->out, loop->max_trips);
  put_block(s, loop->body);
}

static void put_step(section *s, const cv_step *step) {
  cv_mp_put_array(&s->out, 12);
  cv_mp_put_text(&s->out, step->name);
  cv_mp_put_uint(&s->out, (uint64_t)step->kind);
  put_ids(&s->out, step->ins, step->n_ins);
  put_ids(&s->out, step->outs, step->n_outs);
  put_binds(&s->out, step->binds, step->n_binds);
  put_expr(s, step->guard);
  put_text(&s->out, step->body);
  put_text(&s->out, step->pattern);
  put_text(&s->out, step->regions);
  put_text(&s->out, step->nodes);
  put_expr(s, step->flops);
  if (step->loop)
    put_loop(s, step->loop);
  else
    cv_mp_put_nil(&s->out);
}

static void put_checks(section *s, const cv_program *program) {
  cv_mp_put_array(&s->out, program->n_checks);
  for (uint32_t i = 0; i < program->n_checks; i++) {
    cv_mp_put_array(&s->out, 4);
    put_expr(s, program->checks[i].a);
    put_expr(s, program->checks[i].b);
    put_expr(s, program->checks[i].guard);
    put_text(&s->out, program->checks[i].source);
  }
}

static void put_block(section *s, const cv_program *program) {
  cv_mp_put_array(&s->out, 10);
  cv_mp_put_array(&s->out, program->n_values);
  for (uint32_t i = 0; i < program->n_values; i++) put_value(s, &program->values[i]);
  cv_mp_put_array(&s->out, program->n_steps);
  for (uint32_t i = 0; i < program->n_steps; i++) put_step(s, &program->steps[i]);
  put_ports(&s->out, program->inputs, program->n_inputs);
  put_ports(&s->out, program->outputs, program->n_outputs);
  put_binds(&s->out, program->binds, program->n_binds);
  put_checks(s, program);
  cv_mp_put_array(&s->out, program->n_states);
  for (uint32_t i = 0; i < program->n_states; i++) {
    cv_mp_put_array(&s->out, 2);
    cv_mp_put_uint(&s->out, program->states[i].input);
    cv_mp_put_uint(&s->out, program->states[i].output);
  }
  cv_mp_put_bool(&s->out, program->separable);
  put_id(&s->out, program->batch);
  put_text(&s->out, program->separable_why);
}

/* The section's expressions as texts, by number. */
static bool put_expr_texts(const section *s, cv_str *out) {
  cv_mp_put_array(out, (uint32_t)s->exprs.len);
  for (size_t i = 0; i < s->exprs.len; i++) {
    cv_str text = {0};
    cv_expr_print(s->pool, s->exprs.data[i], &text);
    bool failed = text.failed;
    cv_mp_put_text(out, cv_str_text(&text));
    cv_str_deinit(&text);
    if (failed) return false;
  }
  return true;
}

static void put_symbols(cv_str *out, const cv_exprs *pool) {
  uint32_t count = cv_exprs_symbols(pool);
  cv_mp_put_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    int64_t lo, hi;
    cv_symbol_bounds(pool, i, &lo, &hi);
    cv_mp_put_array(out, 3);
    cv_mp_put_text(out, cv_symbol_name(pool, i));
    cv_mp_put_int(out, lo);
    cv_mp_put_int(out, hi);
  }
}

static void put_consts(cv_str *out, const cv_program *program, const cv_blob *blobs) {
  cv_mp_put_array(out, program->n_consts);
  for (uint32_t i = 0; i < program->n_consts; i++) {
    const cv_const *constant = &program->consts[i];
    cv_mp_put_array(out, 4);
    cv_mp_put_uint(out, (uint64_t)cv_dtype_onnx(constant->dtype));
    cv_mp_put_array(out, constant->rank);
    for (int d = 0; d < constant->rank; d++) cv_mp_put_int(out, constant->dims[d]);
    cv_mp_put_uint(out, blobs[i].bytes);
    cv_mp_put_uint(out, blobs[i].hash);
  }
}

/* The part that means the same on every target. */
static bool put_program(cv_str *out, const cv_program *program, const cv_blob *blobs) {
  section s = {.pool = program->exprs};
  put_block(&s, program);
  cv_mp_put_array(out, 4);
  put_symbols(out, program->exprs);
  put_consts(out, program, blobs);
  bool done = put_expr_texts(&s, out) && !s.failed && !s.out.failed;
  cv_str_append(out, cv_str_text(&s.out), s.out.len);
  section_deinit(&s);
  return done;
}

static void put_rendering(section *s, const cv_program *program, const cv_rendering *rendering) {
  bool one = rendering->first == rendering->last && rendering->kernel != CV_NONE;
  uint32_t n_reads = one ? program->steps[rendering->first].n_ins : 0;
  cv_mp_put_array(&s->out, 7);
  cv_mp_put_uint(&s->out, rendering->first);
  cv_mp_put_uint(&s->out, rendering->last);
  put_id(&s->out, rendering->kernel);
  put_exprs(s, rendering->dims, rendering->n_dims);
  cv_mp_put_array(&s->out, rendering->n_packs);
  for (uint32_t i = 0; i < rendering->n_packs; i++) put_expr(s, rendering->packs[i].bytes);
  cv_mp_put_array(&s->out, n_reads);
  for (uint32_t i = 0; i < n_reads; i++) cv_mp_put_bool(&s->out, rendering->reads_raw[i]);
  put_text(&s->out, rendering->variant);
}

/* A target's layouts and renderings of one block, then those of its loops' bodies. */
static void put_part(section *s, const cv_program *program, uint32_t t) {
  const cv_target_code *target = &program->targets[t];
  cv_mp_put_array(&s->out, 3);
  put_ids(&s->out, target->layouts, program->n_values);
  cv_mp_put_array(&s->out, target->n_renderings);
  for (uint32_t i = 0; i < target->n_renderings; i++)
    put_rendering(s, program, &target->renderings[i]);
  uint32_t n_loops = 0;
  for (uint32_t i = 0; i < program->n_steps; i++) n_loops += program->steps[i].loop != NULL;
  cv_mp_put_array(&s->out, n_loops);
  for (uint32_t i = 0; i < program->n_steps; i++)
    if (program->steps[i].loop) put_part(s, program->steps[i].loop->body, t);
}

static bool put_target(cv_str *out, const cv_program *program, uint32_t t, const cv_blob *code) {
  const cv_target_code *target = &program->targets[t];
  section s = {.pool = program->exprs};
  put_part(&s, program, t);
  cv_mp_put_array(out, 9);
  cv_mp_put_text(out, target->name);
  cv_mp_put_text(out, target->arch);
  cv_mp_put_text(out, target->features);
  cv_mp_put_text(out, target->toolchain);
  cv_mp_put_uint(out, code->offset);
  cv_mp_put_uint(out, code->bytes);
  cv_mp_put_uint(out, code->hash);
  bool done = put_expr_texts(&s, out) && !s.failed && !s.out.failed;
  cv_str_append(out, cv_str_text(&s.out), s.out.len);
  section_deinit(&s);
  return done;
}

static void hash_text(const char *data, size_t bytes, char out_hash[33]) {
  static const char digits[] = "0123456789abcdef";
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, bytes));
  for (size_t i = 0; i < sizeof canonical.digest; i++) {
    out_hash[2 * i] = digits[canonical.digest[i] >> 4];
    out_hash[2 * i + 1] = digits[canonical.digest[i] & 15];
  }
  out_hash[32] = 0;
}

cv_status cv_manifest_write(const cv_program *program, const cv_blob *consts, const cv_blob *code,
                            cv_str *out, char out_hash[33]) {
  cv_str meaning = {0};
  bool done = put_program(&meaning, program, consts) && !meaning.failed;
  hash_text(cv_str_text(&meaning), meaning.len, out_hash);
  cv_mp_put_map(out, 5);
  cv_mp_put_text(out, "hash");
  cv_mp_put_text(out, out_hash);
  cv_mp_put_text(out, "provenance");
  cv_mp_put_array(out, 2);
  put_text(out, program->model_name);
  put_text(out, program->producer);
  cv_mp_put_text(out, "program");
  cv_str_append(out, cv_str_text(&meaning), meaning.len);
  cv_mp_put_text(out, "blobs");
  cv_mp_put_array(out, program->n_consts);
  for (uint32_t i = 0; i < program->n_consts; i++) cv_mp_put_uint(out, consts[i].offset);
  cv_mp_put_text(out, "targets");
  cv_mp_put_array(out, program->n_targets);
  for (uint32_t t = 0; t < program->n_targets && done; t++)
    done = put_target(out, program, t, &code[t]);
  cv_str_deinit(&meaning);
  return done && !out->failed ? CV_OK : cv_error_nomem(out->len + meaning.len);
}
