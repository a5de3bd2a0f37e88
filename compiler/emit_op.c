/* The C text of MAP ops on vectors in compute form. */
#include <string.h>

#include "compiler/emit_internal.h"

enum { MAX_OPERANDS = 3 };

/* Which ops round in f16 and bf16: those that can give a value that is none of the type's. */
static bool rounds(cv_op op) {
  switch (op) {
    case CV_OP_neg:
    case CV_OP_abs:
    case CV_OP_sign:
    case CV_OP_floor:
    case CV_OP_ceil:
    case CV_OP_round:
    case CV_OP_max:
    case CV_OP_min:
    case CV_OP_cast: /* by itself */
    case CV_OP_bits:
    case CV_OP_select: return false;
    default: return true;
  }
}

/* C's infix operator for vectors of this kind; NULL where the prelude has a function. */
static const char *infix(cv_op op, char kind) {
  bool whole = kind == 'i' || kind == 'u', logic = whole || kind == 'b';
  switch (op) {
    case CV_OP_add: return kind == 'b' ? "|" : "+";
    case CV_OP_mul: return kind == 'b' ? "&" : "*";
    case CV_OP_sub: return kind == 'b' ? "^" : "-";
    case CV_OP_div: return kind == 'f' ? "/" : NULL;
    case CV_OP_and: return logic ? "&" : NULL;
    case CV_OP_or: return logic ? "|" : NULL;
    case CV_OP_xor: return logic ? "^" : NULL;
    case CV_OP_max: return kind == 'b' ? "|" : NULL;
    case CV_OP_min: return kind == 'b' ? "&" : NULL;
    default: return NULL;
  }
}

/* Ops on bools, which are masks, that are no infix operator. */
static const char *mask_op(cv_emit *emit, cv_op op, const char *const *in) {
  switch (op) {
    case CV_OP_not: return cv_emit_format(emit, "~%s", in[0]);
    case CV_OP_eq: return cv_emit_format(emit, "~(%s ^ %s)", in[0], in[1]);
    case CV_OP_lt: return cv_emit_format(emit, "~%s & %s", in[0], in[1]);
    case CV_OP_le: return cv_emit_format(emit, "~%s | %s", in[0], in[1]);
    default: return NULL;
  }
}

/* The scalar constant behind broadcasts and reshapes; NULL else. */
static const void *scalar_constant(const cv_graph *graph, cv_val value) {
  const cv_value_info *info = cv_value_of(graph, value);
  while (info->def != NULL &&
         (info->def->op == CV_OP_broadcast || info->def->op == CV_OP_reshape)) {
    info = cv_value_of(graph, info->def->ins[0]);
  }
  bool one = info->is_const && info->data.data != NULL &&
             (info->data.splat || info->data.bytes == cv_dtype_size(info->type.dtype));
  return one ? info->data.data : NULL;
}

/* max and min of floats where one operand is a constant that is no NaN: one instruction. */
static const char *clamp_text(cv_emit *emit, const cv_node *node, const char *const *in) {
  cv_dtype dtype = cv_type_of(emit->body, node->outs[0])->dtype;
  const char *name = node->op == CV_OP_max ? "maxc" : "minc";
  for (int i = 1; i >= 0; i--) {
    const void *element = scalar_constant(emit->body, node->ins[i]);
    if (element == NULL || cv_literal(emit, dtype, element)[0] == '_') continue;
    return cv_emit_format(emit, "cv_%s_%s(%s, %s)", name, cv_suffix(emit, cv_compute_dtype(dtype)),
                          in[1 - i], in[i]);
  }
  return NULL;
}

/* ---- cast ---- */

static const char *convert(cv_emit *emit, const char *text, cv_dtype to) {
  return cv_emit_format(emit, "__builtin_convertvector(%s, %s)", text, cv_vector_type(emit, to));
}

/* Of 1 or 2 bytes: they go through i32, there are instructions for that. */
static bool is_small(cv_dtype dtype) {
  return cv_dtype_kind(dtype) != 'f' && cv_dtype_size(dtype) < 4;
}

/* Whether a cast goes through i32 and cuts that: see `narrow`. */
static bool narrows(cv_dtype from, cv_dtype to) {
  bool number = from != CV_BOOL && to != CV_BOOL;
  return number && is_small(to) && (from == CV_I32 || cv_dtype_kind(from) == 'f');
}

/* The variable of a cast that narrows, and its twin. */
static const char *narrow(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  const char *wide = from == CV_I32 ? in : emit_var(emit, CV_I32, convert(emit, in, CV_I32));
  const char *text = cv_emit_format(emit, "cv_narrow_%s(%s)", cv_suffix(emit, to), wide);
  text = emit_var(emit, to, text);
  cv_emit_push(&emit->twins, (cv_twin){text, wide});
  return text;
}

/* A small integer as i32: from what it was cut from, where that is known. */
static const char *widen(cv_emit *emit, const char *in, cv_dtype from) {
  int bits = 8 * (int)cv_dtype_size(from);
  for (size_t i = emit->twins.len; i-- > 0;) {
    const cv_twin *twin = &emit->twins.data[i];
    if (strcmp(twin->text, in) != 0) continue;
    if (cv_dtype_kind(from) == 'u')
      return cv_emit_format(emit, "(%s & %d)", twin->wide, (1 << bits) - 1);
    return cv_emit_format(emit, "(%s << %d >> %d)", twin->wide, 32 - bits, 32 - bits);
  }
  return cv_emit_format(emit, "cv_wide_%s(%s)", cv_suffix(emit, from), in);
}

static const char *cast_from_float(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  const char *suffix = cv_suffix(emit, from);
  if (to == CV_I64 || to == CV_I32) return convert(emit, in, to);
  return cv_emit_format(emit, "cv_to_%s_%s(%s)", cv_dtype_name(to), suffix, in);
}

static const char *to_float(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  return convert(emit, is_small(from) ? widen(emit, in, from) : in, to);
}

static const char *cast_integer(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  if (!is_small(from) || is_small(to)) return convert(emit, in, to);
  in = widen(emit, in, from);
  return to == CV_I32 ? in : convert(emit, in, to);
}

/* To f16 and bf16: through f32, rounded so that the second rounding gives the right result. */
static const char *cast_to_half(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  if (from == CV_F64)
    in = cv_emit_format(emit, "cv_odd_%s(%s)", cv_suffix(emit, from), in);
  else if (from != CV_F32)
    in = to_float(emit, from, CV_F32, in);
  return cv_emit_format(emit, "cv_round_%s(%s)", cv_suffix(emit, to), in);
}

static const char *cast_text(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  cv_dtype source = cv_compute_dtype(from);
  if (from == to || (to == CV_F32 && source == CV_F32)) return in;
  if (to == CV_BOOL) {
    return cv_emit_format(emit, "cv_nonzero_%s(%s)", cv_suffix(emit, source), in);
  }
  if (from == CV_BOOL) {
    const char *one = cv_emit_format(emit, "(-%s)", in);
    return convert(emit, convert(emit, one, CV_I32), cv_compute_dtype(to));
  }
  if (to == CV_F16 || to == CV_BF16) return cast_to_half(emit, source, to, in);
  if (cv_dtype_kind(source) == 'f' && cv_dtype_kind(to) != 'f') {
    return cast_from_float(emit, source, to, in);
  }
  return cv_dtype_kind(to) == 'f' ? to_float(emit, source, to, in)
                                  : cast_integer(emit, source, to, in);
}

/* Half types are computed with as f32: their bits are those of the stored form. */
static const char *bits_text(cv_emit *emit, cv_dtype from, cv_dtype to, const char *in) {
  bool from_half = from == CV_F16 || from == CV_BF16, to_half = to == CV_F16 || to == CV_BF16;
  if (from == to) return in;
  if (from_half) in = cv_emit_format(emit, "cv_to_%s(%s)", cv_suffix(emit, from), in);
  const char *type = cv_vector_type(emit, to_half ? CV_U16 : to);
  const char *text = cv_emit_format(emit, "(%s)%s", type, in);
  return to_half ? cv_emit_format(emit, "cv_from_%s(%s)", cv_suffix(emit, to), text) : text;
}

/* ---- all ---- */

static const char *op_text(cv_emit *emit, const cv_node *node, const char *const *in) {
  cv_dtype operand = cv_type_of(emit->body, node->ins[0])->dtype;
  cv_dtype dtype = cv_type_of(emit->body, node->outs[0])->dtype;
  if (node->op == CV_OP_cast) return cast_text(emit, operand, dtype, in[0]);
  if (node->op == CV_OP_bits) return bits_text(emit, operand, dtype, in[0]);
  if (node->op == CV_OP_select) {
    return cv_emit_format(emit, "cv_sel_%s(%s, %s, %s)", cv_suffix(emit, cv_compute_dtype(dtype)),
                          in[0], in[1], in[2]);
  }
  char kind = cv_dtype_kind(operand);
  const char *sign = infix(node->op, kind), *text = NULL;
  const char *suffix = cv_suffix(emit, cv_compute_dtype(operand));
  if (sign != NULL) return cv_emit_format(emit, "%s %s %s", in[0], sign, in[1]);
  if (kind == 'b') text = mask_op(emit, node->op, in);
  if (node->op == CV_OP_neg) text = cv_emit_format(emit, "-%s", in[0]);
  if (node->op == CV_OP_not && kind != 'b') text = cv_emit_format(emit, "~%s", in[0]);
  bool extremum = node->op == CV_OP_max || node->op == CV_OP_min;
  if (extremum && kind == 'f') text = clamp_text(emit, node, in);
  if (text != NULL) return text;
  const char *name = cv_op_get(node->op)->name;
  return node->n_ins == 1 ? cv_emit_format(emit, "cv_%s_%s(%s)", name, suffix, in[0])
                          : cv_emit_format(emit, "cv_%s_%s(%s, %s)", name, suffix, in[0], in[1]);
}

const char *emit_map_op(cv_emit *emit, const cv_node *node, const cv_index *at) {
  const char *in[MAX_OPERANDS];
  cv_dtype dtype = cv_type_of(emit->body, node->outs[0])->dtype;
  if (node->n_ins > MAX_OPERANDS) {
    cv_emit_fail(emit, CV_INTERNAL, "%s has %u operands", cv_op_get(node->op)->name, node->n_ins);
    return "0";
  }
  for (uint32_t i = 0; i < node->n_ins; i++) in[i] = cv_emit_value(emit, node->ins[i], at);
  if (emit->dry) return cv_emit_id(emit, "t");
  cv_dtype operand = cv_type_of(emit->body, node->ins[0])->dtype;
  if (node->op == CV_OP_cast && narrows(operand, dtype)) return narrow(emit, operand, dtype, in[0]);
  const char *text = op_text(emit, node, in);
  bool half = dtype == CV_F16 || dtype == CV_BF16;
  if (half && rounds(node->op)) {
    text = cv_emit_format(emit, "cv_round_%s(%s)", cv_suffix(emit, dtype), text);
  }
  return emit_var(emit, dtype, text);
}
