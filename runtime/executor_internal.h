/* The executor's parts, private to runtime/executor*.c and stage*.c. Three kinds of threads meet
 * through bounded queues of tasks, which are parts of stages, so that nothing is allocated: the
 * communication thread owns transports, channels and the stages' state; the loader thread owns the
 * list of devices and loads and unloads slices; each device's compute thread runs jobs. */
#ifndef CV_RUNTIME_EXECUTOR_INTERNAL_H
#define CV_RUNTIME_EXECUTOR_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "base/schedule.h"
#include "base/thread.h"
#include "base/vec.h"
#include "runtime/executor.h"
#include "runtime/message.h"

enum {
  CV_EXECUTOR_STAGES = 256,  /* most stages at once */
  CV_EXECUTOR_REACHES = 256, /* most reach questions at once */
  CV_EXECUTOR_INBOX = 6 * CV_EXECUTOR_STAGES + CV_EXECUTOR_REACHES + 1,
  CV_STAGE_JOBS = 2, /* given to the compute thread at once */
  CV_SENTENCE = 512
};

typedef enum {
  CV_TASK_LOAD,     /* to comm: enter the stage, open its channels, pass it to the loader */
  CV_TASK_LOADED,   /* loader to comm: see stage->load_status */
  CV_TASK_UNLOAD,   /* to comm: see stage->wanted */
  CV_TASK_UNLOADED, /* loader to comm: the slice is gone */
  CV_TASK_COMPUTE,  /* to the device */
  CV_TASK_COMPUTED, /* device to comm */
  CV_TASK_REACH,    /* to comm */
  CV_TASK_STOP      /* to comm */
} cv_task_kind;

typedef struct {
  cv_task_kind kind;
  void *subject; /* the stage, the cv_job, or the cv_reach */
} cv_task;

typedef struct {
  cv_task task;
  uint32_t row;
  cv_reach_done done;
  void *arg;
  size_t size;
  uint8_t address[CV_ADDRESS_MAX];
} cv_reach;

/* A device in use, its compute thread and its queue. Owned by the loader thread. */
typedef struct cv_worker cv_worker;
struct cv_worker {
  cv_worker *next;
  cv_executor *executor;
  cv_device_spec spec; /* strings are copies */
  int refs;
  cv_device *device;
  cv_queue *jobs;
  bool started;
  pthread_t thread;
  cv_trace *trace;
};

/* The ring of a compute thread; kept for the next device when one is closed. */
typedef struct {
  cv_trace *trace;
  bool in_use;
} cv_device_trace;

/* One end of an edge, in a stage. Communication thread. */
typedef struct {
  cv_stage *stage;
  const cv_edge *edge;
  uint32_t id;
  int index; /* among the stage's in-edges, or out-edges */
  uint32_t row;
  char *peer;
  uint64_t peer_incarnation;
  uint8_t *address;
  size_t address_bytes;
  cv_channel *channel;
  bool open;
  uint32_t *ports; /* [n_values]: place of each value in the slice's inputs, or outputs */
  /* in-edges, [slots] */
  const cv_header **headers;
  cv_slot *slots;
  int64_t *began_ns;
  /* out-edges */
  bool direct;        /* the shape of all its values is known before they are computed */
  cv_message message; /* the one being made */
  bool *pending;      /* [out_buffers]: to be sent once there is a slot */
  int64_t *sent_ns;   /* [out_buffers] */
} cv_link;

/* A micro-batch from computing to the end of its sends: one for each output buffer. */
typedef struct {
  uint64_t seq, incarnation, session, position;
  uint32_t flags;
  int64_t *symbols; /* [n_symbols] */
  cv_tensor *outs;  /* [n_outs] */
  void **memory;    /* [n_outs]: own memory of values that have no place in a slot */
  uint64_t *memory_bytes;
} cv_batch;

typedef enum {
  CV_JOB_FREE,
  CV_JOB_WAITS, /* not all its slots are acquired */
  CV_JOB_RUNS   /* with the compute thread */
} cv_job_phase;

/* What the compute thread works on; handed over through queues. While one runs the next waits
 * beside it. */
typedef struct {
  cv_task task;
  cv_stage *stage;
  cv_job_phase phase;
  cv_batch *batch;
  bool *acquired;      /* [n_out]: the slot of a direct edge */
  cv_tensor *ins;      /* [n_ins] */
  cv_tensor *planned;  /* [n_outs]: data, where it goes; NULL: the batch's own memory */
  bool *is_placed;     /* [n_outs] */
  cv_step_time *times; /* or NULL */
  int64_t dispatched_ns, begin_ns, end_ns;
  cv_status status;
  char text[CV_SENTENCE];
  cv_slice_memory memory;
} cv_job;

typedef enum {
  CV_STAGE_LOADING,
  CV_STAGE_RUNNING,
  CV_STAGE_FAILED,  /* told, stands still */
  CV_STAGE_CLOSING, /* channels close, a job may still run */
  CV_STAGE_LEAVING  /* the loader unloads the slice */
} cv_stage_phase;

typedef enum { CV_WANT_NOTHING, CV_WANT_UNLOAD, CV_WANT_FORCE } cv_stage_want;

struct cv_stage {
  cv_executor *executor;
  cv_stage *next, **previous; /* the executor's list; communication thread */
  cv_stage_events events;
  char *name;
  uint64_t deployment;
  cv_epoch epoch;
  int index;
  cv_span span;
  cv_artifact *artifact;
  const cv_program *program;
  cv_arena arena; /* of lists that live as long as the stage */
  cv_device_spec spec;
  uint32_t out_buffers, n_ins, n_outs, n_symbols;
  uint32_t *ins, *outs; /* value ids */
  int n_in, n_out;
  cv_link *in, *out;

  /* communication thread */
  cv_stage_phase phase;
  bool is_told;           /* on_loaded was called */
  bool is_loaded;         /* the loader is done with it */
  int n_open, n_channels; /* channels that met their peer; that are not closed */
  cv_schedule *schedule;
  cv_batch *batches; /* [out_buffers] */
  cv_job jobs[CV_STAGE_JOBS];
  int running;         /* jobs with the compute thread */
  int64_t computed_ns; /* when the last one ended */
  int sending, receiving;
  int64_t moved_ns;

  /* loader thread, read by comm after CV_TASK_LOADED */
  cv_worker *worker;
  cv_slice *slice;
  cv_status load_status;
  char load_text[CV_SENTENCE];

  pthread_mutex_t lock; /* of the report */
  cv_lanes lanes;
  cv_slice_memory memory;
  uint64_t slot_bytes; /* of all in-edges */
  int64_t computing_since_ns;

  _Atomic(int) wanted; /* cv_stage_want */
  cv_task load_task, unload_task, loader_task;
};

struct cv_executor {
  char *name;
  uint64_t incarnation;
  int64_t spin_ns, watchdog_ns;
  uint32_t trace_events;
  const cv_device_ops *(*find_device)(const char *kind);
  uint32_t n_rows;
  cv_transport *rows[CV_EXECUTOR_ROWS];
  char *row_names[CV_EXECUTOR_ROWS];
  uint8_t addresses[CV_EXECUTOR_ROWS][CV_ADDRESS_MAX];
  size_t address_bytes[CV_EXECUTOR_ROWS];
  cv_queue *inbox, *loader_inbox;
  bool comm_started, loader_started;
  pthread_t comm, loader;
  cv_task stop_task;
  cv_worker *workers; /* loader thread */
  cv_stage *stages;   /* communication thread */
  bool stopping;      /* communication thread */
  _Atomic(uint64_t) progress;
  _Atomic(int) n_stages, n_reaches;
  cv_trace *trace, *loader_trace;
  pthread_mutex_t traces_lock; /* of the next */
  cv_vec(cv_device_trace) device_traces;
};

/* executor.c */
void cv_executor_moved(cv_executor *executor);
/* Tells the communication thread; its inbox has room for all tasks there can be. */
void cv_executor_tell(cv_executor *executor, cv_task *task);

/* executor_device.c */
void *cv_executor_loader(void *executor); /* the loader's thread */

/* stage_build.c */
CV_NODISCARD cv_status cv_stage_build(cv_executor *executor, const cv_stage_spec *spec,
                                      const cv_stage_events *events, cv_stage **out_stage);
void cv_stage_free(cv_stage *stage); /* accepts NULL and half-built ones */

/* stage.c: all on the communication thread */
void cv_stage_enter(cv_stage *stage);  /* opens the channels */
void cv_stage_loaded(cv_stage *stage); /* the loader is done */
void cv_stage_computed(cv_job *job);   /* the job is done */
void cv_stage_leave(cv_stage *stage);  /* as stage->wanted says */
void cv_stage_fail(cv_stage *stage, cv_status status, const char *text);
void cv_stage_watch(cv_stage *stage, int64_t now_ns);

/* stage_batch.c: one micro-batch; all but cv_job_run on the communication thread */
/* Begins the micro-batch: reads symbols and inputs. */
void cv_job_begin(cv_job *job, uint64_t seq);
/* Gets the slots its results go to: CV_AGAIN: not all are there yet; else why the stage fails. */
CV_NODISCARD cv_status cv_job_acquire(cv_job *job);
/* Runs the job; the compute thread. */
void cv_job_run(cv_job *job, cv_trace *trace);
/* The job is back: its outcome is the micro-batch's. */
void cv_job_finish(cv_job *job);
/* Sends the micro-batch on an edge: CV_AGAIN: there is no slot yet. */
CV_NODISCARD cv_status cv_batch_send(cv_stage *stage, cv_link *link, cv_batch *batch);

#endif
