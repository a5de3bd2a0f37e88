/* The executor: runs stages of plans in one process. It owns one communication thread (all
 * transports and channels), one compute thread for each device in use, and one loader thread that
 * loads and unloads slices while others run. It holds any number of stages at once: those of
 * several epochs, of several deployments.
 *
 * A stage's life: cv_executor_load -> on_loaded (its slice is there and its edges have met their
 * peers: it is PREPARED and takes micro-batches as they come, there is no start) -> cv_stage_unload
 * -> on_unloaded. The handle is valid until on_unloaded, also where loading failed.
 *
 * Threads: functions may be called by any thread; those that say so block. Callbacks come on the
 * communication thread, each exactly once where not said otherwise, never inside the call that
 * started it. They may call everything here but cv_executor_destroy, and must not block. */
#ifndef CV_RUNTIME_EXECUTOR_H
#define CV_RUNTIME_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "runtime/device.h"
#include "runtime/edges.h"
#include "runtime/report.h"
#include "runtime/trace.h"
#include "transport/transport.h"

typedef struct cv_executor cv_executor;
typedef struct cv_stage cv_stage;

enum { CV_EXECUTOR_ROWS = 4 }; /* most transports of one executor */

typedef struct {
  const char *name;        /* of this process, for sentences: "worker 1 on h2"; copied */
  uint64_t incarnation;    /* of this process: new with each start */
  const char *const *rows; /* names of the transports to open */
  uint32_t n_rows;
  cv_hub *hub;           /* for "inproc", else NULL; outlives the executor */
  uint32_t trace_events; /* events kept per thread until they are taken; 0: no trace */
  int64_t spin_ns;       /* see cv_transport_wait; 0 on a core that computes too */
  int64_t watchdog_ns;   /* a stage with work that does not move so long is told of; 0: 5 s */
  const cv_device_ops *(*find_device)(const char *kind); /* NULL: cv_device_find */
} cv_executor_options;

/* Opens the transports and starts the threads. The calling thread's name stays. CV_INVALID (an
 * unknown row), CV_IO, CV_NOMEM, CV_FAILED. */
CV_NODISCARD cv_status cv_executor_create(const cv_executor_options *options,
                                          cv_executor **out_executor);
/* Unloads what is left by force, makes the callbacks still due, ends the threads. Blocks until
 * then (a kernel that runs is waited for). Accepts NULL. */
void cv_executor_destroy(cv_executor *executor);

/* The address of transport number `row` for the peers. Never changes. CV_INVALID: `cap` too small.
 */
CV_NODISCARD cv_status cv_executor_address(const cv_executor *executor, uint32_t row, void *buffer,
                                           size_t cap, size_t *out_size);
/* Whether transport `row` reaches a peer's address (cv_transport_reach): told by `done`, with a
 * sentence where not. CV_NOMEM, CV_CANCELED; then no callback. */
typedef void (*cv_reach_done)(void *arg, cv_status status, const char *text);
CV_NODISCARD cv_status cv_executor_reach(cv_executor *executor, uint32_t row, const void *address,
                                         size_t size, cv_reach_done done, void *arg);

/* Rises with each event of the communication thread and each micro-batch computed: the heartbeat's
 * counter. No lock. */
uint64_t cv_executor_progress(const cv_executor *executor);

/* Takes trace events of all threads; returns how many (0: none left). One caller at a time. */
size_t cv_executor_trace(cv_executor *executor, cv_trace_event *out_events, size_t cap);
uint64_t cv_executor_trace_dropped(cv_executor *executor);

/* ---- stages ---- */

typedef struct {
  uint64_t term;
  uint32_t number;
} cv_epoch;

/* The other end of an edge. */
typedef struct {
  const char *name;     /* for sentences: "stage 2 on edge-b", "the gateway" */
  uint64_t incarnation; /* of its process */
  const char *row;      /* the transport both ends use */
  const void *address;  /* what its cv_executor_address (cv_gateway_address) gave */
  size_t address_bytes;
} cv_edge_peer;

/* Everything is copied but the artifact and the events' arg. */
typedef struct {
  const char *name; /* of the stage, for sentences: "stage 1 of 3" */
  uint64_t deployment;
  cv_epoch epoch;
  int index;                 /* of the stage in the plan */
  cv_artifact *artifact;     /* stays open until on_unloaded */
  const cv_edges *edges;     /* of the whole plan; those of this stage are used */
  const cv_edge_peer *peers; /* [edges->n_edges]; only this stage's edges are read */
  cv_span span;
  cv_device_spec device; /* equal specs share one device, its thread and its packed weights */
  uint32_t out_buffers;  /* micro-batches that compute or send at once, of values that cannot lie
                            in a peer's slot; 0: 3 */
} cv_stage_spec;

typedef struct {
  void *arg;
  /* Exactly once: CV_OK (prepared), or why not: CV_INFEASIBLE says needed and there; CV_CORRUPT,
   * CV_CPU, CV_NOMEM, CV_PEER_LOST ...; CV_CANCELED: unloaded before it was there. */
  void (*on_loaded)(void *arg, cv_stage *stage, cv_status status, const char *text);
  /* At most once, after on_loaded(CV_OK): the stage stands still for good. CV_PEER_LOST names the
   * peer; CV_CANCELED: a peer closed its end (the usual end of an epoch). Unload it. */
  void (*on_failed)(void *arg, cv_stage *stage, cv_status status, const char *text);
  /* A micro-batch failed here; its consumers, and so the gateway, hear of it by its messages. */
  void (*on_error)(void *arg, cv_stage *stage, uint64_t seq, cv_status status, const char *text);
  /* Something waits for longer than the watchdog allows: "stage 1 of 3: micro-batch 17 waits for a
   * slot at stage 3". Again if it goes on waiting for another such time. */
  void (*on_stalled)(void *arg, cv_stage *stage, const char *text);
  /* The last one: memory is free, the handle dies on return. */
  void (*on_unloaded)(void *arg, cv_stage *stage);
} cv_stage_events;

/* Begins to load a stage. NULL callbacks are skipped. CV_INVALID (an edge's row is not open here),
 * CV_NOMEM, CV_CANCELED: then there is no stage and no callback. */
CV_NODISCARD cv_status cv_executor_load(cv_executor *executor, const cv_stage_spec *spec,
                                        const cv_stage_events *events, cv_stage **out_stage);
/* Begins to unload: messages sent are flushed, with `force` they are aborted at both ends. Memory
 * goes when nothing is in flight and no kernel runs. A second call can only add force, and
 * must come before on_unloaded does. */
void cv_stage_unload(cv_stage *stage, bool force);

/* Times, memory and micro-batches so far. A short lock; until on_unloaded. */
typedef struct {
  cv_stage_times times;
  cv_slice_memory memory;
  uint64_t slot_bytes;  /* of all in-edges together */
  int64_t computing_ns; /* for how long the current micro-batch has been computing; 0: none */
} cv_stage_report;
void cv_stage_read(cv_stage *stage, cv_stage_report *out_report);

#endif
