/* Carries a job's messages between the state machine (state.h) and its members over TCP, by libuv.
 * One thread. */
#ifndef CV_COORDINATOR_SERVER_H
#define CV_COORDINATOR_SERVER_H

#include "coordinator/state.h"

/* What the actions of the state machine lead to; a failure ends the job with its sentence. */
typedef struct {
  void *arg;
  /* Keep what a member sent: HELLO, DONE, TIMES, TRACE, STALLED. Copied by the callee. */
  cv_status (*keep)(void *arg, uint32_t member, const cv_msg *msg);
  /* Make plan `number`; *out_prepare stays until the next call. */
  cv_status (*plan)(void *arg, const cv_state *state, uint32_t number,
                    const cv_msg_prepare **out_prepare);
  /* All of plan `number` has been kept: write and show it. */
  cv_status (*results)(void *arg, const cv_state *state, uint32_t number);
} cv_server_events;

/* Runs the job on a listening socket (taken over) until it has ended; returns its verdict with the
 * sentence, which was logged when it fell. Ends with CV_CANCELED on SIGTERM and SIGINT. Blocks. */
CV_NODISCARD cv_status cv_server_run(int listen_fd, const cv_job *job,
                                     const cv_server_events *events);

#endif
