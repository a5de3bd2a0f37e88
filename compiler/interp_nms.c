/* The interpreter's non-maximum suppression, in f32 like the model's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler/interp_internal.h"

typedef struct {
  float y0, x0, y1, x1;
} box;

static box box_at(const float *b, bool center) {
  if (center) {
    float half_w = b[2] / 2, half_h = b[3] / 2;
    return (box){b[1] - half_h, b[0] - half_w, b[1] + half_h, b[0] + half_w};
  }
  return (box){fminf(b[0], b[2]), fminf(b[1], b[3]), fmaxf(b[0], b[2]), fmaxf(b[1], b[3])};
}

static bool overlaps(box a, box b, float limit) {
  float h = fminf(a.y1, b.y1) - fmaxf(a.y0, b.y0), w = fminf(a.x1, b.x1) - fmaxf(a.x0, b.x0);
  if (!(h > 0) || !(w > 0)) return false;
  float area_a = (a.y1 - a.y0) * (a.x1 - a.x0), area_b = (b.y1 - b.y0) * (b.x1 - b.x0);
  float both = h * w, joined = area_a + area_b - both;
  if (!(area_a > 0) || !(area_b > 0) || !(joined > 0)) return false;
  return both / joined > limit;
}

typedef struct {
  float score;
  int64_t index;
} candidate;

static int order_candidates(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

typedef struct {
  int64_t boxes, most; /* boxes an image; kept ones a class at most */
  float iou, least;
  bool center;
  candidate *list; /* room for `boxes` */
  int64_t *kept;
} selection;

/* The kept boxes of one class: indices into `kept`, best first. Returns how many. */
static int64_t select_class(const selection *s, const float *boxes, const float *scores) {
  int64_t count = 0, taken = 0;
  for (int64_t i = 0; i < s->boxes; i++) {
    if (scores[i] > s->least) s->list[count++] = (candidate){scores[i], i};
  }
  if (count > 1) qsort(s->list, (size_t)count, sizeof *s->list, order_candidates);
  for (int64_t i = 0; i < count && taken < s->most; i++) {
    box own = box_at(boxes + 4 * s->list[i].index, s->center);
    bool free_place = true;
    for (int64_t k = 0; k < taken && free_place; k++) {
      free_place = !overlaps(own, box_at(boxes + 4 * s->kept[k], s->center), s->iou);
    }
    if (free_place) s->kept[taken++] = s->list[i].index;
  }
  return taken;
}

cv_status interp_nms(const interp_call *call) {
  const cv_tensor *boxes = &call->ins[0], *scores = &call->ins[1];
  int64_t n = scores->dims[0], classes = scores->dims[1], each = scores->dims[2], found = 0;
  int64_t *selected = call->outs[0].data, *count = call->outs[1].data;
  selection s = {.boxes = each, .center = cv_node_int(call->node, CV_ATTR_CENTER) != 0};
  memcpy(&s.most, call->ins[2].data, sizeof s.most);
  memcpy(&s.iou, call->ins[3].data, sizeof s.iou);
  memcpy(&s.least, call->ins[4].data, sizeof s.least);
  s.kept = cv_alloc_or_die((size_t)each + 1, sizeof *s.kept);
  s.list = cv_alloc_or_die((size_t)each + 1, sizeof *s.list);
  for (int64_t i = 0; i < n; i++) {
    for (int64_t c = 0; c < classes; c++) {
      int64_t taken = select_class(&s, (const float *)boxes->data + 4 * i * each,
                                   (const float *)scores->data + (i * classes + c) * each);
      for (int64_t k = 0; k < taken; k++, found++) {
        selected[3 * found] = i;
        selected[3 * found + 1] = c;
        selected[3 * found + 2] = s.kept[k];
      }
    }
  }
  for (int64_t k = 3 * found; k < 3 * n * classes * each; k++) selected[k] = -1;
  *count = found;
  cv_free(s.kept);
  cv_free(s.list);
  return CV_OK;
}
