#include "compiler/routine_text.h"

/* Along one axis: the operand as [outer, extent, inner], a task for each outer and inner. */
#define ROWS                                             \
  "  for (int64_t task = begin; task < end; task++) {\n" \
  "    const int64_t first = task / inner * extent * inner + task % inner;\n"

/* Positions sorted by element: ties by position; a NaN is above all. The heap's root comes last. */
#define ORDER                                                                                   \
  "static int ${N}_before(const ${S} *x, int64_t step, int64_t a, int64_t b) {\n"               \
  "  const ${E} u = ${get}x + a * step), v = ${get}x + b * step);\n"                            \
  "  if ((u != u) != (v != v)) return (u != u) == ${largest};\n"                                \
  "  if (u < v || u > v) return ${largest} ? u > v : u < v;\n"                                  \
  "  return a < b;\n"                                                                           \
  "}\n"                                                                                         \
  "static void ${N}_sift(const ${S} *x, int64_t step, int64_t *heap, int64_t n, int64_t i) {\n" \
  "  const int64_t moved = heap[i];\n"                                                          \
  "  for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {\n"                         \
  "    child += child + 1 < n && ${N}_before(x, step, heap[child], heap[child + 1]);\n"         \
  "    if (!${N}_before(x, step, moved, heap[child])) break;\n"                                 \
  "    heap[i] = heap[child];\n"                                                                \
  "    i = child;\n"                                                                            \
  "  }\n"                                                                                       \
  "  heap[i] = moved;\n"                                                                        \
  "}\n"                                                                                         \
  "static void ${N}_sort(const ${S} *x, int64_t step, int64_t *heap, int64_t n) {\n"            \
  "  for (int64_t i = n / 2; i-- > 0;) ${N}_sift(x, step, heap, n, i);\n"                       \
  "  while (--n > 0) {\n"                                                                       \
  "    const int64_t last = heap[0];\n"                                                         \
  "    heap[0] = heap[n];\n"                                                                    \
  "    heap[n] = last;\n"                                                                       \
  "    ${N}_sift(x, step, heap, n, 0);\n"                                                       \
  "  }\n"                                                                                       \
  "}\n"

const routine_text routine_texts[] = {
    {CV_OP_arg, "  plan->tasks[0] = outer * inner;\n", "",
     ROWS "    int64_t best = 0;\n"
          "    if (extent < 1) return 3;\n"
          "    ${E} top = ${get}in0 + first);\n"
          "    for (int64_t k = 1; k < extent; k++) {\n"
          "      const ${E} v = ${get}in0 + first + k * inner);\n"
          "      const int above = ${largest} ? v > top || (v != v && top == top)\n"
          "                                   : v < top || (v == v && top != top);\n"
          "      const int equal = v == top || (v != v && top != top);\n"
          "      if (!above && !(equal && ${last})) continue;\n"
          "      best = k;\n"
          "      top = v;\n"
          "    }\n"
          "    out0[task] = best;\n"
          "  }\n"},
    {CV_OP_scan, "  plan->tasks[0] = outer * inner;\n", "",
     ROWS "    ${sum} sum = ${start};\n"
          "    for (int64_t i = 0; i < extent; i++) {\n"
          "      const int64_t at = first + (${reverse} ? extent - 1 - i : i) * inner;\n"
          "      const ${sum} next = sum ${sign} ${get}in0 + at);\n"
          "      ${put}out0 + at, (${E})(${exclusive} ? sum : next));\n"
          "      sum = next;\n"
          "    }\n"
          "  }\n"},
    {CV_OP_window_arg, "  plan->tasks[0] = planes;\n", "",
     "  for (int64_t task = begin; task < end; task++) {\n"
     "    const ${S} *x = in0 + task * plane;\n"
     "    int64_t out = 0;\n"
     "${open}"
     "      int64_t best = -1;\n"
     "      ${E} top = 0;\n"
     "${taps}"
     "        const ${E} v = ${get}x + at);\n"
     "        if (best >= 0 && !(v > top || (v != v && top == top))) continue;\n"
     "        best = at;\n"
     "        top = v;\n"
     "      }${close_taps}\n"
     "      out0[task * places + out++] = best < 0 ? 0 : best;\n"
     "    }${close}\n"
     "  }\n"},
    {CV_OP_scatter_nd,
     "  plan->phases = 2;\n"
     "  plan->tasks[0] = (count + 65535) / 65536;\n"
     "  plan->tasks[1] = 1;\n",
     "",
     "  if (phase == 0) {\n"
     "    const int64_t from = begin * 65536, to = cv_min(end * 65536, count);\n"
     "    if (from < to) __builtin_memcpy(out0 + from, in0 + from, (to - from) * sizeof *in0);\n"
     "    return 0;\n"
     "  }\n"
     "  if (begin >= end) return 0;\n"
     "  for (int64_t row = 0; row < rows && inner > 0; row++) {\n"
     "    const int64_t extents[] = {${extents}0};\n"
     "    int64_t at = 0;\n"
     "    for (int k = 0; k < ${depth}; k++) {\n"
     "      at = at * extents[k] + cv_index(in1[row * ${depth} + k], extents[k], &bad);\n"
     "    }\n"
     "    if (bad) return 1;\n"
     "    for (int64_t i = 0; i < inner; i++) {\n"
     "      ${S} *const q = out0 + at * inner + i;\n"
     "      const ${S} *const p = in2 + row * inner + i;\n"
     "      ${update}\n"
     "    }\n"
     "  }\n"},
    {CV_OP_topk,
     "  plan->tasks[0] = outer * inner;\n"
     "  plan->scratch_thread = (most * 8 + 63) / 64 * 64;\n"
     "  if (most < 0 || most > extent) return 1;\n",
     ORDER,
     ROWS "    const ${S} *x = in0 + first;\n"
          "    int64_t *heap = scratch_thread;\n"
          "    for (int64_t i = 0; i < most; i++) heap[i] = i;\n"
          "    for (int64_t i = most / 2; i-- > 0;) ${N}_sift(x, inner, heap, most, i);\n"
          "    for (int64_t i = most; i < extent && most > 0; i++) {\n"
          "      if (!${N}_before(x, inner, i, heap[0])) continue;\n"
          "      heap[0] = i;\n"
          "      ${N}_sift(x, inner, heap, most, 0);\n"
          "    }\n"
          "    ${N}_sort(x, inner, heap, most);\n"
          "    for (int64_t i = 0; i < most; i++) {\n"
          "      const int64_t at = (task / inner * most + i) * inner + task % inner;\n"
          "      out0[at] = x[heap[i] * inner];\n"
          "      out1[at] = heap[i];\n"
          "    }\n"
          "  }\n"},
    {CV_OP_nonzero_count, "  plan->tasks[0] = 1;\n", "",
     "  if (begin >= end) return 0;\n"
     "  int64_t found = 0;\n"
     "  for (int64_t i = 0; i < count; i++) found += ${get}in0 + i) != 0;\n"
     "  out0[0] = found;\n"},
    {CV_OP_nonzero, "  plan->tasks[0] = 1;\n", "",
     "  if (begin >= end) return 0;\n"
     "  const int64_t extents[] = {${extents}1};\n"
     "  int64_t found = 0;\n"
     "  for (int64_t i = 0; i < count; i++) {\n"
     "    if (${get}in0 + i) == 0) continue;\n"
     "    int64_t rest = i;\n"
     "    for (int d = ${rank} - 1; d >= 0 && found < most; d--) {\n"
     "      out0[d * most + found] = rest % extents[d];\n"
     "      rest /= extents[d];\n"
     "    }\n"
     "    found++;\n"
     "  }\n"
     "  if (found != most) return 3;\n"},
    {CV_OP_unique,
     "  plan->tasks[0] = 1;\n"
     "  plan->scratch_thread = (2 * count * 8 + 63) / 64 * 64;\n",
     ORDER,
     "  if (begin >= end) return 0;\n"
     "  int64_t *order = scratch_thread, *group = order + count, groups = 0, head = 0;\n"
     "  for (int64_t i = 0; i < count; i++) order[i] = i;\n"
     "  ${N}_sort(in0, 1, order, count);\n"
     "  for (int64_t i = 0; i < count; i++) {\n"
     "    const ${E} u = ${get}in0 + order[i]), v = ${get}in0 + head);\n"
     "    if (i == 0 || !(u == v || (u != u && v != v))) {\n"
     "      head = order[i];\n"
     "      if (${sorted}) out0[groups++] = head;\n"
     "    }\n"
     "    out1[order[i]] = head;\n"
     "  }\n"
     "  for (int64_t i = 0; i < count && !${sorted}; i++) {\n"
     "    if (out1[i] == i) out0[groups++] = i;\n"
     "  }\n"
     "  for (int64_t g = 0; g < groups; g++) group[out0[g]] = g;\n"
     "  for (int64_t i = 0; i < count; i++) out2[i] = 0;\n"
     "  for (int64_t i = 0; i < count; i++) {\n"
     "    out1[i] = group[out1[i]];\n"
     "    out2[out1[i]]++;\n"
     "  }\n"
     "  for (int64_t g = groups; g < count; g++) out0[g] = -1;\n"
     "  out3[0] = groups;\n"},
    {CV_OP_nms,
     "  plan->tasks[0] = 1;\n"
     "  plan->scratch_thread = (2 * each * 8 + 63) / 64 * 64;\n",
     ORDER
     "typedef struct {\n"
     "  float y0, x0, y1, x1;\n"
     "} ${N}_box;\n"
     "static ${N}_box ${N}_box_at(const float *b) {\n"
     "  if (${center}) {\n"
     "    const float h = b[3] / 2, w = b[2] / 2;\n"
     "    return (${N}_box){b[1] - h, b[0] - w, b[1] + h, b[0] + w};\n"
     "  }\n"
     "  const int y = b[0] > b[2], x = b[1] > b[3];\n"
     "  return (${N}_box){b[y ? 2 : 0], b[x ? 3 : 1], b[y ? 0 : 2], b[x ? 1 : 3]};\n"
     "}\n"
     "static int ${N}_overlap(const float *p, const float *q, float limit) {\n"
     "  const ${N}_box a = ${N}_box_at(p), b = ${N}_box_at(q);\n"
     "  const float h = (a.y1 < b.y1 ? a.y1 : b.y1) - (a.y0 > b.y0 ? a.y0 : b.y0);\n"
     "  const float w = (a.x1 < b.x1 ? a.x1 : b.x1) - (a.x0 > b.x0 ? a.x0 : b.x0);\n"
     "  if (!(h > 0) || !(w > 0)) return 0;\n"
     "  const float area = (a.y1 - a.y0) * (a.x1 - a.x0), other = (b.y1 - b.y0) * (b.x1 - b.x0);\n"
     "  const float both = h * w, joined = area + other - both;\n"
     "  if (!(area > 0) || !(other > 0) || !(joined > 0)) return 0;\n"
     "  return both / joined > limit;\n"
     "}\n",
     "  if (begin >= end) return 0;\n"
     "  int64_t *list = scratch_thread, *kept = list + each, found = 0;\n"
     "  for (int64_t c = 0; c < images * classes; c++) {\n"
     "    const float *boxes = in0 + c / classes * each * 4, *scores = in1 + c * each;\n"
     "    int64_t n = 0, taken = 0;\n"
     "    for (int64_t i = 0; i < each; i++) {\n"
     "      if (scores[i] > in4[0]) list[n++] = i;\n"
     "    }\n"
     "    ${N}_sort(scores, 1, list, n);\n"
     "    for (int64_t i = 0; i < n && taken < in2[0]; i++) {\n"
     "      int free = 1;\n"
     "      for (int64_t k = 0; k < taken && free; k++) {\n"
     "        free = !${N}_overlap(boxes + 4 * list[i], boxes + 4 * kept[k], in3[0]);\n"
     "      }\n"
     "      if (free) kept[taken++] = list[i];\n"
     "    }\n"
     "    for (int64_t k = 0; k < taken; k++, found++) {\n"
     "      out0[3 * found] = c / classes;\n"
     "      out0[3 * found + 1] = c % classes;\n"
     "      out0[3 * found + 2] = kept[k];\n"
     "    }\n"
     "  }\n"
     "  for (int64_t i = 3 * found; i < 3 * images * classes * each; i++) out0[i] = -1;\n"
     "  out1[0] = found;\n"},
    {CV_OP_random, "  plan->tasks[0] = (count + 4095) / 4096;\n", "",
     "  for (int64_t i = begin * 4096; i < cv_min(end * 4096, count); i++) {\n"
     "    uint32_t words[4];\n"
     "    cv_philox(${seed}u, 0, (uint64_t)i, words);\n"
     "    double value = (double)((float)(words[0] >> 8) * 0x1p-24f);\n"
     "    if (${normal}) {\n"
     "      const double u = (double)((words[0] >> 8) + 1) * 0x1p-24;\n"
     "      const double v = (double)(words[1] >> 8) * 0x1p-24;\n"
     "      value = __builtin_sqrt(-2 * cv_log1(u)) * cv_sin1(0x1.921fb54442d18p+2 * v, 1);\n"
     "    }\n"
     "    ${put}out0 + i, ${narrow});\n"
     "  }\n"},
};
const int routine_text_count = sizeof routine_texts / sizeof routine_texts[0];
