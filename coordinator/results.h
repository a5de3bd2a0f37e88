/* What members say of a job, kept until a plan has ended: then its table, report and trace. One
 * thread. */
#ifndef CV_COORDINATOR_RESULTS_H
#define CV_COORDINATOR_RESULTS_H

#include "base/vec.h"
#include "coordinator/assign.h"
#include "coordinator/state.h"
#include "runtime/report.h"

enum { CV_RESULTS_EVENTS = 1 << 20 }; /* trace events kept of a member; more are counted */

typedef struct {
  cv_arena arena; /* of the hellos */
  uint32_t workers;
  cv_msg_hello *hellos; /* [workers + 1] */
  cv_msg_done done;     /* of the current plan */
  cv_vec(cv_msg_stage_times) times;
  struct {
    cv_vec(cv_trace_event) events;
    uint64_t dropped;
  } * traces; /* [workers + 1] */
} cv_results;

/* CV_NOMEM. */
CV_NODISCARD cv_status cv_results_init(cv_results *results, uint32_t workers);
void cv_results_deinit(cv_results *results); /* accepts zeroed */
/* Keeps a message of HELLO, DONE, TIMES, TRACE (copied). CV_NOMEM. */
CV_NODISCARD cv_status cv_results_keep(cv_results *results, uint32_t member, const cv_msg *msg);
/* A plan begins: forgets DONE and TIMES of the one before. */
void cv_results_begin(cv_results *results);

/* Prints the table of stages to stdout, and writes the report where `report_path` is given.
 * CV_CORRUPT: the times of a stage are missing; CV_IO, CV_NOMEM. */
CV_NODISCARD cv_status cv_results_show(const cv_results *results, const cv_assigned *assigned,
                                       const char *report_path);
/* Writes all events so far on the coordinator's clock, and prints how well clocks are aligned.
 * CV_INVALID, CV_IO, CV_NOMEM. */
CV_NODISCARD cv_status cv_results_write_trace(const cv_results *results, const cv_state *state,
                                              const char *path);

#endif
