/* Between fuse.c and fuse_grow.c. */
#ifndef CV_COMPILER_FUSE_INTERNAL_H
#define CV_COMPILER_FUSE_INTERNAL_H

#include "compiler/fuse.h"

/* Makes a group around the node at `seed`, which belongs to none yet: it and what may run with it
 * in one kernel. */
void cv_fuse_grow(cv_fusion *fusion, uint32_t seed);
/* Adds a group; positions ascending. Results are found later. */
cv_group *cv_fusion_add(cv_fusion *fusion, cv_group_kind kind, const uint32_t *positions,
                        uint32_t n);
/* True if something outside of the marked nodes (node_stamp == stamp) reads v, be it through free
 * nodes. */
bool cv_fusion_read_outside(const cv_fusion *fusion, cv_val v, uint32_t stamp);

#endif
