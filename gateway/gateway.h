/* The gateway: source and sink of one deployment's pipeline. Requests go in, micro-batches are
 * stamped and sent to the stages that read graph inputs, results come back from those that make
 * graph outputs, answers go out in order per stream.
 *
 * A route is its side of one epoch: open -> on_route(CV_OK) -> use -> close. At most two are open;
 * new micro-batches are stamped with the one in use, an older id is refused; a route closes when
 * no micro-batch of it is in flight, or at once: then they may be stamped again with another.
 *
 * One thread makes all calls; it is the gateway's communication thread. Callbacks come from
 * cv_gateway_wait only, and may call everything but that and cv_gateway_destroy. */
#ifndef CV_GATEWAY_GATEWAY_H
#define CV_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "runtime/executor.h"
#include "runtime/program.h"
#include "runtime/tensor.h"

typedef struct cv_gateway cv_gateway;

typedef struct {
  uint64_t id, stream;
  void *context;      /* of the request */
  cv_status status;   /* CV_OK, or why there is no answer */
  const char *text;   /* a sentence where it failed, else "" */
  cv_tensor *outputs; /* [program outputs], owned; take one by copying it and zeroing it here; NULL
                         where it failed */
  int64_t latency_ns; /* since submit */
} cv_answer;

typedef struct {
  void *arg;
  void (*on_answer)(void *arg, const cv_answer *answer);
  /* The route's edges have met their peers (CV_OK), or never will. Once per open. */
  void (*on_route)(void *arg, cv_epoch epoch, cv_status status, const char *text);
  /* A route that was there has failed, also one that drains: CV_PEER_LOST names the peer. It keeps
   * its micro-batches until cv_gateway_close says what becomes of them. */
  void (*on_failed)(void *arg, cv_epoch epoch, cv_status status, const char *text);
  /* Nothing has moved for the watchdog's time though requests wait: who waits for whom. */
  void (*on_stalled)(void *arg, const char *text);
  /* The route is closed, its memory free. Also where on_route never came. */
  void (*on_closed)(void *arg, cv_epoch epoch);
} cv_gateway_events;

typedef struct {
  const char *name;     /* for sentences; copied; NULL: "the gateway" */
  uint64_t incarnation; /* of this process */
  uint64_t deployment;
  const cv_program *program; /* outlives the gateway, with its constants' data */
  const char *const *rows;   /* transports to open */
  uint32_t n_rows;
  cv_hub *hub;           /* for "inproc", else NULL */
  uint32_t max_requests; /* admitted at once; 0: 64 */
  uint32_t trace_events; /* 0: no trace */
  int64_t spin_ns;
  int64_t watchdog_ns; /* 0: 5 s */
  cv_gateway_events events;
} cv_gateway_options;

CV_NODISCARD cv_status cv_gateway_create(const cv_gateway_options *options,
                                         cv_gateway **out_gateway);
/* Drops what is not answered. Accepts NULL. */
void cv_gateway_destroy(cv_gateway *gateway);
/* As cv_executor_address. */
CV_NODISCARD cv_status cv_gateway_address(const cv_gateway *gateway, uint32_t row, void *buffer,
                                          size_t cap, size_t *out_size);

typedef struct {
  cv_epoch epoch;
  const cv_edges *edges;     /* of the plan; copied */
  const cv_edge_peer *peers; /* [edges->n_edges]; only edges from and to the gateway are read */
  int64_t micro_batch;       /* items; 0: whole requests */
  uint32_t window;           /* micro-batches in flight at most; 0: 2 x stages + 2 */
} cv_route_spec;

/* Begins to open a route. CV_INVALID (two are open, an id not above the last, a row that is not
 * open), CV_NOMEM and what cv_channel_open says; then no callback tells of it. */
CV_NODISCARD cv_status cv_gateway_open(cv_gateway *gateway, const cv_route_spec *spec);
/* New micro-batches go this way from now on. CV_INVALID: not open, or older than one used before.
 */
CV_NODISCARD cv_status cv_gateway_use(cv_gateway *gateway, cv_epoch epoch);
/* No route is in use: nothing is stamped, requests are still taken in. */
void cv_gateway_hold(cv_gateway *gateway);

/* What becomes of the unanswered micro-batches of a route that closes. */
typedef enum {
  CV_CLOSE_DRAIN,  /* they come back first; where it has failed: their requests fail with that */
  CV_CLOSE_FORCE,  /* now: their requests are answered CV_CANCELED, or with its failure */
  CV_CLOSE_REPLAY, /* now: they are stamped again, oldest first, before anything newer, with the
                      route in use */
  CV_CLOSE_BLAME   /* as REPLAY, and each of their requests counts a death: after two it is stamped
                      only when nothing else is in flight, and if it dies so it is answered CV_FAILED
                    */
} cv_close_how;

/* Begins to close a route; it is no longer in use. A later call may say more than CV_CLOSE_DRAIN
 * did. The micro-batches are dealt with before it returns, on_closed comes later. */
void cv_gateway_close(cv_gateway *gateway, cv_epoch epoch, cv_close_how how);
/* Micro-batches of the epoch that are unanswered. */
uint32_t cv_gateway_in_flight(const cv_gateway *gateway, cv_epoch epoch);

typedef struct {
  uint64_t stream;   /* answers come in the order of requests with the same number */
  cv_tensor *inputs; /* [program inputs], program order; taken over with CV_OK and freed when
                        answered; one that is not owned must live as long. A state's input may be
                        without data where the stream has a state */
  bool reset;        /* the stream's state is forgotten: state inputs are as given */
  void *context;     /* comes back with the answer */
} cv_request;

/* Takes a request in. CV_AGAIN: the ledger is full, call cv_gateway_wait first. CV_INVALID names
 * the input, the shape wanted and the shape given. */
CV_NODISCARD cv_status cv_gateway_submit(cv_gateway *gateway, const cv_request *request,
                                         uint64_t *out_id);
/* Requests of which nothing, or not all, is stamped are answered with this status and sentence:
 * what an owner does that has no route to give them. */
void cv_gateway_refuse(cv_gateway *gateway, cv_status status, const char *text);
/* Requests that are not answered. */
uint32_t cv_gateway_waiting(const cv_gateway *gateway);
/* Forgets a stream's state, once its requests are answered. */
void cv_gateway_end_stream(cv_gateway *gateway, uint64_t stream);

/* Moves what can be moved and makes the callbacks that are due, waiting until something was done,
 * `extra_fd` (-1: none) is readable, or the deadline (monotonic) has passed: CV_TIMEOUT. */
CV_NODISCARD cv_status cv_gateway_wait(cv_gateway *gateway, int extra_fd, int64_t deadline_ns);

/* Takes trace events. Any one thread. */
size_t cv_gateway_trace(cv_gateway *gateway, cv_trace_event *out_events, size_t cap);
uint64_t cv_gateway_trace_dropped(const cv_gateway *gateway);

#endif
