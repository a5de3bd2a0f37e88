/* Is there a plan whose bottleneck is at most a limit? Private to partitioner/. */
#ifndef CV_PARTITIONER_SEARCH_INTERNAL_H
#define CV_PARTITIONER_SEARCH_INTERNAL_H

#include "partitioner/model_internal.h"

typedef struct cv_search cv_search;

typedef enum {
  CV_SEARCH_NONE,   /* proved: no such plan */
  CV_SEARCH_FOUND,  /* the path is in the search */
  CV_SEARCH_UNKNOWN /* the effort ended before */
} cv_search_answer;

/* `ordered`: the classes of the model are devices in order, some may be left out; else any order.
 * CV_UNSUPPORTED: too many sets of devices to keep a table. The model is borrowed. */
CV_NODISCARD cv_status cv_search_create(const cv_model *model, bool ordered,
                                        cv_search **out_search);
void cv_search_destroy(cv_search *search);

typedef struct {
  int min_stages, max_stages;
  double limit;
  int64_t effort; /* stages looked at */
} cv_search_question;

/* Exact: NONE is a proof. Also gives, in `best`, the best plan seen on the way, if it beats
 * best->bottleneck (which the caller sets to INFINITY at first). */
typedef struct {
  double bottleneck;
  int n;
  cv_path_stage *path; /* [n_devices], the caller's */
} cv_search_best;
CV_NODISCARD cv_status cv_search_ask(cv_search *search, const cv_search_question *question,
                                     cv_search_best *best, cv_search_answer *out_answer);

/* No plan of at most max_stages stages has a smaller bottleneck, from what each device can take
 * alone: a number below `high`, near the largest that can be said. */
double cv_search_floor(cv_search *search, int max_stages, double high);

#endif
