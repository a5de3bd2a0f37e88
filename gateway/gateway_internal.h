/* The gateway's parts, private to gateway/gateway.c, route*.c and answer.c. One thread. */
#ifndef CV_GATEWAY_GATEWAY_INTERNAL_H
#define CV_GATEWAY_GATEWAY_INTERNAL_H

#include "base/arena.h"
#include "base/schedule.h"
#include "base/vec.h"
#include "gateway/batch.h"
#include "gateway/gateway.h"
#include "gateway/ledger.h"
#include "runtime/message.h"

enum { CV_ROUTES = 2, CV_ROUTE_WINDOW = 128, CV_GATEWAY_TEXT = 512, CV_GATEWAY_STAGE = 0xff };

typedef struct cv_route cv_route;

/* One end of an edge. */
typedef struct {
  cv_route *route;
  const cv_edge *edge;
  uint32_t id, row;
  int index; /* among the route's in-edges, or out-edges */
  const char *peer;
  cv_channel *channel;
  bool open;
  /* in-edges, [slots] */
  const cv_header **headers;
  cv_slot *slots;
  int64_t *began_ns;
  /* out-edges */
  cv_message message;
  bool *pending;    /* [window]: to be sent once there is a slot */
  int64_t *sent_ns; /* [window] */
} cv_route_link;

/* A micro-batch from its stamp to its last send. */
typedef struct {
  cv_ledger_batch *entry;
  int64_t *symbols;
  cv_tensor *inputs; /* types of the micro-batch's inputs */
  uint32_t flags;    /* a failure here, to be passed on */
} cv_route_batch;

typedef enum {
  CV_ROUTE_FREE,
  CV_ROUTE_OPENING,
  CV_ROUTE_OPEN,
  CV_ROUTE_FAILED,
  CV_ROUTE_CLOSING /* channels close */
} cv_route_phase;

struct cv_route {
  cv_gateway *gateway;
  cv_route_phase phase;
  bool is_told, is_quiet; /* quiet: its opening has failed, no callback tells of it */
  bool closes;            /* when nothing is in flight */
  cv_epoch epoch;
  cv_arena arena;
  int n_in, n_out, n_open, n_channels;
  cv_route_link *in, *out;
  cv_schedule *source, *sink;
  uint32_t window;
  int64_t micro_batch;
  uint64_t next_seq;
  cv_route_batch *batches; /* [window] */
  cv_status status;        /* FAILED: why */
  char text[CV_GATEWAY_TEXT];
};

/* What the ledger's records belong to. */
typedef struct {
  cv_tensor *inputs, *outputs;
  void *context;
  bool reset, ends; /* ends: its stream's state is forgotten with it */
  int64_t submitted_ns;
  char text[CV_GATEWAY_TEXT];
} cv_gateway_request;

typedef struct {
  uint64_t stream;
  bool valid;
  cv_tensor *values; /* [program's states]; lent to the stream's oldest request until its answer */
} cv_stream_state;

struct cv_gateway {
  char *name;
  uint64_t incarnation, deployment;
  const cv_program *program;
  bool split;
  uint32_t n_rows, max_requests, n_symbols;
  cv_transport *rows[CV_EXECUTOR_ROWS];
  char *row_names[CV_EXECUTOR_ROWS];
  int64_t spin_ns, watchdog_ns, moved_ns;
  cv_gateway_events events;
  cv_ledger *ledger;
  cv_arena arena;
  cv_gateway_request *requests; /* [max_requests], by id */
  int64_t *symbols;             /* scratch */
  cv_vec(cv_stream_state) streams;
  cv_trace *trace;
  cv_route routes[CV_ROUTES];
  cv_route *used;
  cv_epoch last;    /* the newest id opened */
  cv_epoch highest; /* the newest id used */
};

/* answer.c */
/* Copies a result of a micro-batch into its requests' outputs. */
CV_NODISCARD cv_status cv_answer_place(cv_gateway *gateway, const cv_ledger_batch *entry,
                                       uint32_t value, const cv_tensor *result);
/* Writes down why the requests of a micro-batch fail. */
void cv_answer_explain(const cv_ledger_batch *entry, const char *text);
/* Answers what is due; returns how many. */
size_t cv_answer_deliver(cv_gateway *gateway);
/* The stream's state takes the place of the request's state inputs. */
void cv_answer_carry(cv_gateway *gateway, const cv_ledger_request *request);
void cv_answer_free_request(cv_gateway *gateway, cv_gateway_request *request);
void cv_answer_free_state(cv_gateway *gateway, cv_stream_state *state);

/* route_build.c */
CV_NODISCARD cv_status cv_route_build(cv_route *route, const cv_route_spec *spec);
void cv_route_free(cv_route *route);

/* route.c */
bool cv_route_is(const cv_route *route, cv_epoch epoch);
/* Stamps, sends and takes what can be; closes and frees what is due. */
void cv_route_pump(cv_route *route);
void cv_route_explain(const cv_route *route, char *text, size_t size);

#endif
