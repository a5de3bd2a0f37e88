/* What the two walks of the search share, private to search*.c. A state says which devices are
 * used: a number of each class in free order, or (next device, stages used) in fixed order; where
 * links differ, also the class of the last one. */
#ifndef CV_PARTITIONER_SEARCH_STATE_INTERNAL_H
#define CV_PARTITIONER_SEARCH_STATE_INTERNAL_H

#include "base/map.h"
#include "partitioner/search_internal.h"

enum { CV_SEARCH_MEASURES = 4 };

/* Relative room for rounding in comparisons that prune. */
#define CV_SEARCH_ROUNDING 1e-11

/* Work of the atoms as one class sees it, and how much of it one stage of each class can take. */
typedef struct {
  double *work;  /* [n_atoms + 1] */
  double *cover; /* [n_classes] within the limit of the question */
  int *widest;   /* classes by descending cover */
} cv_search_measure;

/* Running figures of a stage while later stages are still open. */
typedef struct {
  double busy, wire_out;
} cv_search_open;

struct cv_search {
  const cv_model *model;
  bool ordered;
  cv_arena arena;
  int n_states, lasts; /* lasts: n_classes + 1 when the last class is part of the state, else 1 */
  int *radix;          /* [n_classes] of the number of used devices of a class */
  uint16_t *used;      /* [n_states] stages so far */
  int *twin;           /* [n_classes] the first class with the same reach */
  int **hold_end;      /* [n_classes][n_atoms]: where memory ends a stage at the latest, or NULL */
  int **end;           /* [n_classes][n_atoms]: where memory or the limit of the question ends it */
  int n_measures;
  cv_search_measure measures[CV_SEARCH_MEASURES];

  /* of the question at hand */
  int min_stages, max_stages;
  double limit;
  int64_t effort;
  cv_status status;
  cv_arena tables;
  int *need;       /* [n_states] the first position from which the rest can be done, or -1 */
  int **down;      /* [n_states][n_atoms + 1]: distance to the next position not known to fail */
  uint8_t **reach; /* [n_states][n_atoms + 1]: 1: the rest is known to be possible at least */
  cv_path_stage *path; /* [n_devices] */
  int path_len;

  /* of the exact walk */
  cv_search_open *open; /* [n_devices + 1][n_devices] figures by depth */
  uint64_t *row;        /* [n_devices + 1] */
  cv_map failed;
  int *live_begin, *live; /* values live at each position, or NULL: too many to list */
  unsigned char *key;
  size_t key_room;
};

int cv_search_used(const cv_search *q, int state);
int cv_search_last(const cv_search *q, int state);
/* Devices of the class that are still free. */
int cv_search_left(const cv_search *q, int state, int class_);
/* The state after one more stage on a device of the class, or -1 when there is none left. */
int cv_search_next(const cv_search *q, int state, int class_);
CV_NODISCARD cv_status cv_search_build_bounds(cv_search *q);
/* Once a question: how far each class reaches within its limit. */
void cv_search_begin_bounds(cv_search *q);
/* The first position from which the devices left may do the rest within the limit. */
int cv_search_need(cv_search *q, int state);
/* cv_search_next, and where that stage [a, b) may end, from its compute time and weights:
 * lo <= b <= top. */
int cv_search_range(cv_search *q, int state, int class_, int a, int *out_lo, int *out_top);
/* Can the rest be done from here if every stage costs no more than its floor? Memoised. */
bool cv_search_possible(cv_search *q, int state, int a);
/* The largest position <= p that is not known to fail in the state. */
int cv_search_skip(cv_search *q, int state, int p);
/* False, and the search ends, when the effort is spent or memory is out. */
bool cv_search_spend(cv_search *q, int64_t effort);
/* The exact walk: true when q->path is a plan within the limit. */
bool cv_search_walk_exact(cv_search *q);

#endif
